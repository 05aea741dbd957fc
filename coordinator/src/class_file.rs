//! The class file of a site.
//!
//! Read at start alone: what decides where jobs run does not change under a coordinator that nobody
//! looks at. With a file that is wrong in anything it does not start, for a class that is missing would
//! leave its jobs without a host at night.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jobs::Problem;
use profiles::classes::Classes;

/// Where it is looked for when nobody names another place.
pub const CLASS_FILE: &str = "/etc/matins/classes.toml";

/// Many times what a site with a class for every host would write.
const CLASS_FILE_BYTES_MAX: u64 = 1 << 20;

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
        let text = match read_text(path) {
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

/// Reads a file that is one, and no more of it than a class file can have: what never ends, or waits
/// for somebody who writes, would hold up a coordinator that starts.
fn read_text(path: &Path) -> io::Result<String> {
    let refused = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    if !fs::metadata(path)?.is_file() {
        return Err(refused("it is no plain file".into()));
    }
    let mut text = String::new();
    let most = CLASS_FILE_BYTES_MAX + 1;
    let read = File::open(path)?.take(most).read_to_string(&mut text)?;
    if read as u64 == most {
        return Err(refused(format!(
            "it has more than {CLASS_FILE_BYTES_MAX} bytes"
        )));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_class_file_is_not_read_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let why = |path: &Path| match ClassFile::read(Some(path)) {
            Err(ClassFileError::Read { source, .. }) => source.to_string(),
            other => panic!("{other:?}"),
        };
        for device in ["/dev/zero", "/", "/proc/self/fd"] {
            assert_eq!(why(Path::new(device)), "it is no plain file", "{device}");
        }
        let pipe = directory.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(why(&pipe), "it is no plain file");
        let long = directory.path().join("long");
        let file = File::create(&long).unwrap();
        file.set_len(CLASS_FILE_BYTES_MAX + 1).unwrap();
        assert_eq!(why(&long), "it has more than 1048576 bytes");
        file.set_len(CLASS_FILE_BYTES_MAX).unwrap();
        assert!(matches!(
            ClassFile::read(Some(&long)),
            Err(ClassFileError::Wrong(_))
        ));
    }
}
