//! The class file of a site.
//!
//! Read at start alone: what decides where jobs run does not change under a coordinator that nobody
//! looks at. With a file that is wrong in anything it does not start, for a class that is missing would
//! leave its jobs without a host at night.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jobs::Problem;
use profiles::classes::Classes;

/// Where it is looked for when nobody names another place.
pub const CLASS_FILE: &str = "/etc/matins/classes.toml";

/// The classes that are in force, and where they are from.
#[derive(Clone, Debug)]
pub struct ClassFile {
    pub classes: Arc<Classes>,
    /// `None` where there are the built-in ones alone.
    pub from: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum ClassFileError {
    #[error("reading the class file {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("the class file is wrong:{0}")]
    Wrong(Problems),
}

/// All that is wrong with a class file, a line each.
#[derive(Debug)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl ClassFile {
    pub fn built_in() -> ClassFile {
        ClassFile {
            classes: Arc::new(Classes::built_in()),
            from: None,
        }
    }

    /// The file that somebody has named, else the one at its usual place, else the built-in classes.
    pub fn read(named: Option<&Path>) -> Result<ClassFile, ClassFileError> {
        let path = named.unwrap_or_else(|| Path::new(CLASS_FILE));
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => {
                return Ok(ClassFile::built_in());
            }
            read => read.map_err(|source| ClassFileError::Read {
                path: path.to_owned(),
                source,
            })?,
        };
        let classes = Classes::parse(&path.to_string_lossy(), &text)
            .map_err(|problems| ClassFileError::Wrong(Problems(problems)))?;
        Ok(ClassFile {
            classes: Arc::new(classes),
            from: Some(path.to_owned()),
        })
    }
}
