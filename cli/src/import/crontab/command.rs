//! The command of a crontab's line: what the shell is given, what its standard input is, and how
//! the job that it makes is called.

use super::super::names::slug;

/// Longest readable part of a job's name.
const WORD_BYTES_MAX: usize = 40;

/// Ends the standard input in a here-document. A line of the input that is equal gets another.
const END_OF_INPUT: &str = "END_OF_INPUT";

/// A command as cron hands it on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// For the shell.
    pub(crate) line: String,
    /// Behind the first `%`, each further one a line break; ends with one.
    pub(crate) input: Option<String>,
}

/// Splits at the first `%` that no backslash stands before. In the command `\%` is `%` and two
/// backslashes are one, in the input only `\%` is something else.
pub(crate) fn split_input(text: &str) -> Command {
    let mut line = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '%' => {
                let input = read_input(chars.as_str());
                return Command {
                    line,
                    input: (!input.is_empty()).then_some(input),
                };
            }
            '\\' => match chars.next() {
                Some(next @ ('%' | '\\')) => line.push(next),
                Some(next) => {
                    line.push('\\');
                    line.push(next);
                }
                None => line.push('\\'),
            },
            c => line.push(c),
        }
    }
    Command { line, input: None }
}

fn read_input(text: &str) -> String {
    let mut input = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next_if_eq(&'%').is_some() => input.push('%'),
            '%' => input.push('\n'),
            c => input.push(c),
        }
    }
    if !input.is_empty() && !input.ends_with('\n') {
        input.push('\n');
    }
    input
}

/// A script that gives a command its standard input. The group is what reads it, whatever it
/// consists of; its end stands on a line of its own, because a comment or `&` may end the command.
pub(crate) fn with_input(line: &str, input: &str) -> String {
    let mut end = END_OF_INPUT.to_owned();
    while input.lines().any(|line| line == end) {
        end.push('_');
    }
    format!("{{ {line}\n}} <<'{end}'\n{input}{end}")
}

/// The words of a command that is a program and plain arguments, to be started without a shell in
/// whatever directory; `None` for any other, of which only a shell knows what it means.
pub(crate) fn plain_words(line: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let is_plain = |word: &&str| {
        word.bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_./:,@+".contains(&b))
    };
    let program_is_path = words.first()?.starts_with('/');
    // Any other argument may name a file in the directory where cron starts the command.
    let is_anywhere = |word: &&str| {
        word.starts_with(['/', '-']) && !word.contains("..")
            || word.bytes().all(|b| b.is_ascii_digit())
    };
    (program_is_path && words.iter().all(is_plain) && words.iter().all(is_anywhere))
        .then_some(words)
}

/// Whether the command leaves something running behind it.
pub(crate) fn is_in_background(line: &str) -> bool {
    let line = line.trim_end();
    line.ends_with('&') && !line.ends_with("&&")
}

/// What somebody would call the job: the program that does the work, and its first plain argument.
/// A guess, and only a name rests on it.
pub(crate) fn called(line: &str) -> String {
    let parts = parts_of(line);
    let words = parts
        .iter()
        .map(|part| working_words(part))
        .find(|words| !words.is_empty())
        .unwrap_or_default();
    let mut called = String::new();
    for word in words {
        let word = word.trim_matches(['"', '\'', '(', ')', '{', '}', '\\']);
        let base = word.rsplit('/').find(|part| !part.is_empty());
        let Some(base) = base.filter(|_| !word.contains(['$', '=', '<', '>', '*'])) else {
            break;
        };
        let stem = [".sh", ".py", ".php", ".pl", ".rb"]
            .iter()
            .find_map(|ending| base.strip_suffix(ending))
            .unwrap_or(base);
        let part = slug(stem, WORD_BYTES_MAX);
        if part.is_empty() || called.len() + part.len() >= WORD_BYTES_MAX {
            break;
        }
        if !called.is_empty() {
            called.push('-');
        }
        called.push_str(&part);
    }
    called
}

/// The commands of a line, as far as can be told without being a shell.
fn parts_of(line: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in line.split("&&").flat_map(|part| part.split("||")) {
        parts.extend(part.split(['|', ';', '&', '\n']));
    }
    parts
}

/// The words that say what a command does: nothing of one that only asks or prepares.
fn working_words(part: &str) -> Vec<&str> {
    const ASKS: [&str; 16] = [
        "test", "[", "[[", "cd", ".", "source", "export", "set", "sleep", "true", "umask",
        "ulimit", "exit", "fi", "done", "command",
    ];
    const LEADS: [&str; 17] = [
        "then", "else", "do", "{", "(", "!", "exec", "nice", "ionice", "nohup", "timeout", "sudo",
        "env", "time", "chronic", "setsid", "eval",
    ];
    const READS_A_PROGRAM: [&str; 12] = [
        "sh",
        "bash",
        "dash",
        "zsh",
        "ksh",
        "python",
        "python3",
        "perl",
        "php",
        "ruby",
        "node",
        "run-parts",
    ];
    let mut words = part.split_ascii_whitespace().peekable();
    let mut led = false;
    while let Some(&word) = words.peek() {
        let is_assignment = word
            .split_once('=')
            .is_some_and(|(name, _)| !name.is_empty() && !name.contains(['/', '-']));
        let leads = LEADS.contains(&word);
        let is_option = led && (word.starts_with('-') || is_amount(word));
        if !(is_assignment || leads || is_option) {
            break;
        }
        led |= leads;
        words.next();
    }
    let Some(&program) = words.peek() else {
        return Vec::new();
    };
    if ASKS.contains(&program) || matches!(program, "if" | "elif" | "while" | "until" | "for") {
        return Vec::new();
    }
    let base = program.rsplit('/').next().unwrap_or(program);
    let takes = if READS_A_PROGRAM.contains(&base) {
        3
    } else {
        2
    };
    words
        .enumerate()
        .filter(|(i, word)| *i == 0 || !word.starts_with('-'))
        .map(|(_, word)| word)
        .take(takes)
        .collect()
}

/// `10` or `5m`: what `nice` and `timeout` take.
fn is_amount(word: &str) -> bool {
    let digits = word.trim_end_matches(['s', 'm', 'h', 'd']);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Debian's cron did it when it was asked.
    #[test]
    fn percent_is_where_the_input_begins() {
        for (text, line, input) in [
            ("run", "run", None),
            ("date +\\%d", "date +%d", None),
            ("echo 'a\\\\b' 'c\\\\\\%d'", "echo 'a\\b' 'c\\%d'", None),
            ("find . -exec rm {} \\;", "find . -exec rm {} \\;", None),
            ("cat%one", "cat", Some("one\n")),
            ("cat%one%two%", "cat", Some("one\ntwo\n")),
            (
                "cat > b%one\\\\two\\%%three%",
                "cat > b",
                Some("one\\\\two%\nthree\n"),
            ),
            ("cat%", "cat", None),
            ("a\\", "a\\", None),
        ] {
            let command = split_input(text);
            assert_eq!(
                (command.line.as_str(), command.input.as_deref()),
                (line, input),
                "{text}"
            );
        }
    }

    #[test]
    fn only_plain_words_go_without_a_shell() {
        for (line, expected) in [
            ("/usr/sbin/logadm", Some(vec!["/usr/sbin/logadm"])),
            ("/bin/a -n 5 /x:y", Some(vec!["/bin/a", "-n", "5", "/x:y"])),
            ("/bin/sh do_the_thing", None),
            ("run-parts /etc/cron.hourly", None),
            ("/bin/a > /dev/null", None),
            ("/bin/a 'b'", None),
            ("/bin/a /tmp/*", None),
            ("/bin/a ~/x", None),
            ("A=b /bin/a", None),
            ("/bin/a A=b", None),
            ("/bin/a # why", None),
            ("/bin/a {x,y}", None),
            ("", None),
        ] {
            assert_eq!(plain_words(line), expected, "{line}");
        }
    }

    #[test]
    fn a_job_is_called_by_what_does_the_work() {
        for (line, expected) in [
            ("/usr/sbin/logadm", "logadm"),
            (
                "command -v debian-sa1 > /dev/null && debian-sa1 1 1",
                "debian-sa1-1",
            ),
            (
                "[ -x /usr/sbin/ganeti-cleaner ] && /usr/sbin/ganeti-cleaner node",
                "ganeti-cleaner-node",
            ),
            (
                "test -e /run/systemd/system || SERVICE_MODE=1 /sbin/e2scrub_all -A -r",
                "e2scrub_all",
            ),
            (
                "if [ -x /a ]; then nice -n10 /usr/sbin/logcheck; fi",
                "logcheck",
            ),
            (
                "cd / && run-parts --report /etc/cron.hourly",
                "run-parts-cron.hourly",
            ),
            ("php /var/www/cron.php >/dev/null", "php-cron"),
            ("timeout 5m /opt/backup.sh --all", "backup"),
            ("/bin/sh do_the_thing", "sh-do_the_thing"),
            ("对账", ""),
            ("", ""),
        ] {
            assert_eq!(called(line), expected, "{line}");
        }
    }
}
