//! The files of manifests: found, read and judged, all of them before anything is said.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jobs::manifest::FILE_BYTES_MAX;
use jobs::{Manifest, Problem, parse_manifests};
use protocol::JobName;

use crate::failure::Failure;
use crate::output::talk;
use crate::text::{LINE_WIDTH, count, printable, wrap_prose};

/// Every manifest of these files and directories, or everything that is wrong with them.
/// Problems are said as they would be by a compiler; the failure only counts them, and says that
/// nothing was `done`, which is "applied" or the like.
pub(crate) fn read_all(paths: &[PathBuf], done: &str) -> Result<Vec<Manifest>, Failure> {
    let Listed {
        files,
        mut problems,
    } = Listed::find(paths);
    let mut manifests = Vec::new();
    let mut seen: BTreeMap<JobName, String> = BTreeMap::new();
    for file in &files {
        let name = file.display().to_string();
        match read_file(file).and_then(|bytes| parse_manifests(&name, bytes)) {
            Ok(found) => {
                for manifest in found {
                    let first = seen.entry(manifest.name.clone()).or_insert(name.clone());
                    if *first != name {
                        problems.push(of_file(
                            &name,
                            format!("{} is in {first} too", manifest.name),
                            "keep one of the two",
                        ));
                    }
                    manifests.push(manifest);
                }
            }
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() {
        return Ok(manifests);
    }
    for problem in &problems {
        talk(&show_problem(problem));
    }
    let place = match (files.as_slice(), paths) {
        ([file], _) | ([], [file]) => file.display().to_string(),
        ([], paths) => count(paths.len() as u64, "file"),
        (files, _) => count(files.len() as u64, "manifest file"),
    };
    Err(Failure::bad_input(
        format!("reading {place}"),
        format!(
            "{}, said above; nothing was {done}",
            count(problems.len() as u64, "problem")
        ),
        match problems.len() {
            1 => "mend it and run this again",
            _ => "mend them and run this again",
        },
    ))
}

/// The files meant, and what is wrong with how they are named.
struct Listed {
    files: Vec<PathBuf>,
    problems: Vec<Problem>,
}

impl Listed {
    /// The files named, and of directories the `*.yaml` and `*.yml` in them and below, in the
    /// order of their names. Names that begin with a dot are left out, as by a shell.
    fn find(paths: &[PathBuf]) -> Listed {
        let mut listed = Listed {
            files: Vec::new(),
            problems: Vec::new(),
        };
        for path in paths {
            match fs::metadata(path) {
                Err(error) => listed.unreadable(path, &error),
                Ok(metadata) if metadata.is_dir() => {
                    let before = (listed.files.len(), listed.problems.len());
                    listed.walk(path, &mut Vec::new());
                    if before == (listed.files.len(), listed.problems.len()) {
                        listed.problems.push(of_file(
                            &path.display().to_string(),
                            "there is no *.yaml and no *.yml file in this directory or below it"
                                .to_owned(),
                            "name the directory that holds the manifests",
                        ));
                    }
                }
                // What a person names may be a pipe.
                Ok(_) => listed.files.push(path.clone()),
            }
        }
        listed
    }

    /// `above` are the directories that lead here, links resolved.
    fn walk(&mut self, directory: &Path, above: &mut Vec<PathBuf>) {
        let entries = fs::canonicalize(directory).and_then(|real| {
            let entries = fs::read_dir(directory)?;
            let paths = entries.map(|entry| Ok(entry?.path()));
            Ok((real, paths.collect::<io::Result<BTreeSet<PathBuf>>>()?))
        });
        let (real, entries) = match entries {
            Ok(found) => found,
            Err(error) => return self.unreadable(directory, &error),
        };
        if above.contains(&real) {
            return self.problems.push(of_file(
                &directory.display().to_string(),
                format!(
                    "the link leads back to {}, which it is below",
                    real.display()
                ),
                "delete the link, or name the directories to be read one by one",
            ));
        }
        above.push(real);
        for path in entries {
            let name = path.file_name().unwrap_or_default();
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let is_yaml = path.extension().is_some_and(|e| e == "yaml" || e == "yml");
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => self.walk(&path, above),
                Ok(metadata) if is_yaml && metadata.is_file() => self.files.push(path),
                Ok(_) if is_yaml => self.problems.push(of_file(
                    &path.display().to_string(),
                    "this is no file but a pipe, a socket or a device".to_owned(),
                    "delete it, or give it another name",
                )),
                Err(error) if is_yaml => self.unreadable(&path, &error),
                // A link that leads nowhere, or a file of another kind: no manifest.
                _ => {}
            }
        }
        above.pop();
    }

    fn unreadable(&mut self, path: &Path, error: &io::Error) {
        self.problems.push(of_file(
            &path.display().to_string(),
            error.to_string(),
            "name a file, or a directory of *.yaml and *.yml files, that you may read",
        ));
    }
}

/// The bytes of a file, one more than are read at most where there are more.
fn read_file(file: &Path) -> Result<Vec<u8>, Vec<Problem>> {
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| {
            vec![of_file(
                &file.display().to_string(),
                error.to_string(),
                "see that it is a file that you may read",
            )]
        })?;
    Ok(bytes)
}

fn of_file(file: &str, what: String, remedy: &str) -> Problem {
    Problem {
        file: file.to_owned(),
        line: 0,
        column: 0,
        field: String::new(),
        what,
        remedy: remedy.to_owned(),
    }
}

/// The place on the first line, as editors read it, and the words indented below.
fn show_problem(problem: &Problem) -> String {
    let place = match problem.line {
        0 => String::new(),
        line => format!(":{line}:{}", problem.column),
    };
    let mut text = printable(&format!("{}{place}: {}", problem.file, problem.field));
    text.truncate(text.trim_end().len());
    for part in [&problem.what, &problem.remedy] {
        for line in wrap_prose(&printable(part), LINE_WIDTH - 4) {
            text.push_str("\n    ");
            text.push_str(&line);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_where_an_editor_finds_it() {
        let problem = Problem {
            file: "jobs/a.yaml".to_owned(),
            line: 3,
            column: 12,
            field: "schedule.cron".to_owned(),
            what: "61 is not a minute".to_owned(),
            remedy: "write 0 to 59".to_owned(),
        };
        assert_eq!(
            show_problem(&problem),
            "jobs/a.yaml:3:12: schedule.cron\n    61 is not a minute\n    write 0 to 59"
        );
        let whole = of_file("b.yaml", "no such file".to_owned(), "name another");
        assert_eq!(
            show_problem(&whole),
            "b.yaml:\n    no such file\n    name another"
        );
    }
}
