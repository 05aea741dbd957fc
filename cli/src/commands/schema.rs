//! `matins schema`: what a manifest may say, for editors.

use jobs::manifest_schema;

use crate::failure::Failure;
use crate::output::print_json;

pub(crate) fn schema() -> Result<(), Failure> {
    print_json(&manifest_schema())
}
