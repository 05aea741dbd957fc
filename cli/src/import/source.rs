//! Reading a source: never more of it than is allowed, and every line of it counted.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Bytes of a source, and its name as the person wrote it.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Standard input.
const STDIN: &str = "-";

/// Reads a file, or standard input for `-`; at most one byte more than `bytes_max`, so that what is
/// longer is seen to be.
pub(crate) fn read_source(path: &Path, bytes_max: usize) -> io::Result<Source> {
    let mut bytes = Vec::new();
    let limit = bytes_max as u64 + 1;
    let name = if path.as_os_str() == STDIN {
        io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
        "standard input".to_owned()
    } else {
        File::open(path)?.take(limit).read_to_end(&mut bytes)?;
        path.display().to_string()
    };
    Ok(Source { name, bytes })
}

/// How many lines the bytes are, the last one counted whether or not it is ended.
pub(crate) fn count_lines(bytes: &[u8]) -> u32 {
    let ends = memchr::memchr_iter(b'\n', bytes).count();
    let open = bytes.last().is_some_and(|&last| last != b'\n');
    u32::try_from(ends + usize::from(open)).unwrap_or(u32::MAX)
}

/// The bytes as text, and what to tell of how they became it.
pub(crate) fn decode(bytes: &[u8]) -> Result<(String, Option<&'static str>), &'static str> {
    let wide = |from_bytes: fn([u8; 2]) -> u16| {
        let units = bytes[2..]
            .chunks_exact(2)
            .map(|pair| from_bytes([pair[0], pair[1]]));
        let text: String = char::decode_utf16(units)
            .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect();
        (text, Some("the file is in UTF-16, and was read as that"))
    };
    match bytes {
        [0xff, 0xfe, ..] => return Ok(wide(u16::from_le_bytes)),
        [0xfe, 0xff, ..] => return Ok(wide(u16::from_be_bytes)),
        _ => {}
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if memchr::memchr(0, bytes).is_some() {
        return Err("it is no text: there are NUL bytes in it");
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok((text.to_owned(), None)),
        Err(_) => Ok((
            latin1(bytes),
            Some(
                "the file is not in UTF-8: letters beyond ASCII were read as Latin-1 and may be others",
            ),
        )),
    }
}

/// Each byte as the character of its number.
pub(crate) fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&b| char::from(b)).collect()
}
