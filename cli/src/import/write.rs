//! The directory that manifests are written to.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use jobs::manifest::FILE_BYTES_MAX;

use super::plan::{Existing, Planned, Step};
use super::report::Report;
use crate::failure::Failure;

const REPORT: &str = "report.json";

/// What stands in the directory already: the manifests of every namespace.
pub(crate) fn read_existing(out: &Path) -> Result<Existing, Failure> {
    let mut existing = Existing::new();
    let told = |error: &io::Error| {
        Failure::of_error(
            format!("looking into {}", out.display()),
            error,
            "name a directory that you may read and write",
        )
    };
    for namespace in list(out).map_err(|e| told(&e))? {
        if !out.join(&namespace).is_dir() {
            continue;
        }
        for file in list(&out.join(&namespace)).map_err(|e| told(&e))? {
            if Path::new(&file).extension().is_some_and(|e| e == "yaml") {
                let path = format!("{namespace}/{file}");
                let text = read_text(&out.join(&path)).map_err(|e| told(&e))?;
                existing.insert(path, text);
            }
        }
    }
    Ok(existing)
}

/// Names in a directory that are text; none where there is no directory.
fn list(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    entries
        .filter_map(|entry| {
            entry
                .map(|entry| entry.file_name().into_string().ok())
                .transpose()
        })
        .collect()
}

/// A file's text, nothing where it is none or longer than a manifest.
fn read_text(path: &Path) -> io::Result<Option<String>> {
    if !path.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(FILE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8(bytes)
        .ok()
        .filter(|text| text.len() <= FILE_BYTES_MAX))
}

/// Writes the manifests and the report, each whole or not at all.
pub(crate) fn execute(
    out: &Path,
    planned: &[Planned],
    report: &Report,
    force: bool,
) -> Result<(), Failure> {
    let place = out.join(REPORT);
    if !force && !may_replace(&place) {
        return Err(Failure::failed(
            format!("writing {}", place.display()),
            "it is there already, and no report of an import",
            "import into another directory, or overwrite it with `--force`",
        ));
    }
    for file in planned {
        if matches!(file.step, Step::New | Step::Updated | Step::Unchanged) {
            write_whole(&out.join(&file.path), file.text.as_bytes())?;
        }
    }
    let mut text = serde_json::to_vec_pretty(report).expect("a report is always JSON");
    text.push(b'\n');
    write_whole(&place, &text)
}

/// Whether nothing stands there, or a report, which is known by how it begins: it may be long.
fn may_replace(report: &Path) -> bool {
    let mut head = String::new();
    match File::open(report) {
        Ok(file) => {
            file.take(64).read_to_string(&mut head).is_ok() && head.contains("\"imported_from\"")
        }
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let directory = path.parent().expect("a file is written into a directory");
    let name = path.file_name().expect("a file has a name");
    let mut begun = std::ffi::OsString::from(".");
    begun.push(name);
    begun.push(".new");
    let begun = directory.join(begun);
    let write = || -> io::Result<()> {
        fs::create_dir_all(directory)?;
        let mut file = File::create(&begun)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&begun, path)
    };
    write().map_err(|error| {
        Failure::of_error(
            format!("writing {}", path.display()),
            &error,
            "see that the directory may be written and has room, and import again",
        )
    })
}
