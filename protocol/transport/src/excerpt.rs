//! Text that the other side wrote, made safe to show.

/// Most characters shown.
const CHARACTERS_MAX: usize = 200;

/// The beginning of `bytes` as text: control characters escaped, what is no UTF-8 replaced.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    // A character is at most four bytes, so nothing that would be shown is cut here.
    let head = &bytes[..bytes.len().min(CHARACTERS_MAX * 4)];
    let text = String::from_utf8_lossy(head);
    let mut shown: String = text
        .chars()
        .take(CHARACTERS_MAX)
        .flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default());
            let plain = escaped.is_none().then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect();
    if head.len() < bytes.len() || text.chars().nth(CHARACTERS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_short_and_harmless() {
        for (bytes, expected) in [
            (&b"plain"[..], "plain".to_owned()),
            (b"", String::new()),
            (b"\x1b[31m\n", "\\u{1b}[31m\\n".to_owned()),
            (b"a\xff", "a\u{fffd}".to_owned()),
            (&[b'x'; 200], "x".repeat(200)),
            (&[b'x'; 201], "x".repeat(200) + "…"),
            (&vec![b'x'; 70_000], "x".repeat(200) + "…"),
        ] {
            assert_eq!(excerpt(bytes), expected);
        }
    }
}
