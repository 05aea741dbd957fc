//! Whether a crontab names a user before each command.
//!
//! `/etc/crontab` and the files of `/etc/cron.d` do, a user's own does not, and nothing in the file
//! says which it is. A user taken for a program, or a program for a user, makes another job of a
//! line. So the lines are heard as witnesses, and where they disagree nobody guesses.

use super::line::{Crontab, What, split_word};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserField {
    Yes,
    No,
}

/// What the lines bear witness to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Is(UserField),
    /// Lines that say there is one, and lines that say there is none.
    Disputed {
        yes: u32,
        no: u32,
    },
    /// The first line that could be either.
    Unknown {
        line: u32,
    },
}

/// Users that exist nearly everywhere, and are no programs.
const USERS: [&str; 30] = [
    "root", "nobody", "daemon", "www-data", "www", "apache", "nginx", "postgres", "mysql", "redis",
    "git", "backup", "bin", "sys", "adm", "lp", "mail", "news", "uucp", "man", "list", "operator",
    "munin", "nagios", "zabbix", "tomcat", "jenkins", "oracle", "ubuntu", "ec2-user",
];

/// Programs that are written without their path, and are hardly users.
const PROGRAMS: [&str; 88] = [
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "csh",
    "tcsh",
    "fish",
    "env",
    "exec",
    "cd",
    "test",
    "if",
    "for",
    "while",
    "case",
    "until",
    "export",
    "set",
    "source",
    "eval",
    "time",
    "true",
    "false",
    "sleep",
    "echo",
    "printf",
    "cat",
    "cp",
    "mv",
    "rm",
    "ln",
    "mkdir",
    "touch",
    "chmod",
    "chown",
    "find",
    "grep",
    "sed",
    "awk",
    "sort",
    "tar",
    "gzip",
    "xz",
    "zip",
    "dd",
    "date",
    "df",
    "du",
    "ps",
    "kill",
    "killall",
    "pkill",
    "nice",
    "ionice",
    "nohup",
    "timeout",
    "flock",
    "sudo",
    "su",
    "runuser",
    "setsid",
    "chronic",
    "run-parts",
    "rsync",
    "scp",
    "ssh",
    "curl",
    "wget",
    "lynx",
    "fetch",
    "php",
    "python",
    "python2",
    "python3",
    "perl",
    "ruby",
    "node",
    "npm",
    "java",
    "go",
    "make",
    "docker",
    "podman",
    "kubectl",
    "aws",
    "systemctl",
    "service",
];

/// Hears the lines, and before them the place where the file stands.
pub(crate) fn detect(file: &str, crontab: &Crontab) -> Verdict {
    if file.contains("/cron.d/") || file.ends_with("etc/crontab") {
        return Verdict::Is(UserField::Yes);
    }
    if spool_user(file).is_some() {
        return Verdict::Is(UserField::No);
    }
    let (mut yes, mut no, mut likely) = (0, 0, 0);
    let mut unknown = None;
    for line in &crontab.lines {
        let What::Entry { rest, .. } = &line.what else {
            continue;
        };
        match witness(rest) {
            Some(Witness::User) => yes += 1,
            Some(Witness::LikelyUser) => likely += 1,
            Some(Witness::Program) => no += 1,
            Some(Witness::Either) => unknown = unknown.or(Some(line.number)),
            None => {}
        }
    }
    match (yes, likely, no, unknown) {
        (0, 0, 0, Some(line)) => Verdict::Unknown { line },
        (0, _, 1.., _) | (0, 0, 0, None) => Verdict::Is(UserField::No),
        (1.., _, 0, _) | (0, 1.., 0, _) => Verdict::Is(UserField::Yes),
        (yes, _, no, _) => Verdict::Disputed { yes, no },
    }
}

/// The user whose crontab this is, by its place in cron's spool.
pub(crate) fn spool_user(file: &str) -> Option<&str> {
    let (_, below) = file.split_once("/spool/cron/")?;
    let name = below.strip_prefix("crontabs/").unwrap_or(below);
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

enum Witness {
    /// The first word is a user's name, and a program follows.
    User,
    /// It has the form of one, and what follows has the form of a command.
    LikelyUser,
    Program,
    Either,
}

/// What the words behind the time say; nothing where there are none.
fn witness(rest: &str) -> Option<Witness> {
    let (first, behind) = split_word(rest);
    let (second, _) = split_word(behind);
    if first.is_empty() || is_of_time(first) {
        return None;
    }
    if !has_form_of_user(first) || second.is_empty() || PROGRAMS.contains(&first) {
        return Some(Witness::Program);
    }
    if USERS.contains(&first) {
        return Some(Witness::User);
    }
    let commands = ["/", "./", "~", "$", "[", "(", "{", "!", "\""];
    let is_command = commands.iter().any(|begin| second.starts_with(begin))
        || PROGRAMS.contains(&second)
        || second.contains('=');
    // `backup-tool -v`: a program and its option.
    let is_argument =
        second.starts_with(['-', '>', '<', '|', '&', ';', '+', '*']) || second.starts_with("2>");
    Some(match (is_command, is_argument) {
        (_, true) => Witness::Program,
        (true, false) => Witness::LikelyUser,
        (false, false) => Witness::Either,
    })
}

/// What can only be one more field of a time: another cron's seconds or years.
pub(crate) fn is_of_time(word: &str) -> bool {
    word.starts_with('*')
        || word
            .bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b',' | b'-' | b'/' | b'*' | b'?'))
}

/// Capitals are no part of most users' names, but Debian has `Debian-exim`.
fn has_form_of_user(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && word.len() <= 32
        && word
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::super::line::parse_crontab;
    use super::*;

    #[test]
    fn lines_are_heard() {
        let is = Verdict::Is;
        for (lines, expected) in [
            ("* * * * * root run\n", is(UserField::Yes)),
            ("* * * * * /usr/bin/run\n", is(UserField::No)),
            (
                "* * * * * logcheck if [ -x a ]; then a; fi\n",
                is(UserField::Yes),
            ),
            ("* * * * * gnt-masterd [ -x a ] && a\n", is(UserField::Yes)),
            ("* * * * * Debian-exim [ -x a ] && a\n", is(UserField::Yes)),
            ("* * * * * php /srv/cron.php\n", is(UserField::No)),
            ("* * * * * backup-tool --all\n", is(UserField::No)),
            ("* * * * * cleanup\n", is(UserField::No)),
            ("@daily /bin/sh do_the_thing\n", is(UserField::No)),
            (
                "@reboot app /srv/app\n* * * * * /bin/a\n",
                is(UserField::No),
            ),
            ("# nothing\n", is(UserField::No)),
            ("* * * * * one two\n", Verdict::Unknown { line: 1 }),
            (
                "* * * * * root run\n* * * * * /bin/a\n",
                Verdict::Disputed { yes: 1, no: 1 },
            ),
        ] {
            assert_eq!(
                detect("f", &parse_crontab(lines.as_bytes())),
                expected,
                "{lines}"
            );
        }
    }

    #[test]
    fn the_place_of_a_file_says_it_first() {
        let crontab = parse_crontab(b"* * * * * one two\n");
        for (file, expected) in [
            ("/etc/cron.d/one", UserField::Yes),
            ("backup/etc/crontab", UserField::Yes),
            ("/var/spool/cron/crontabs/ann", UserField::No),
            ("/var/spool/cron/ann", UserField::No),
        ] {
            assert_eq!(detect(file, &crontab), Verdict::Is(expected), "{file}");
        }
        assert_eq!(spool_user("/var/spool/cron/crontabs/ann"), Some("ann"));
        assert_eq!(spool_user("/var/spool/cron/ann"), Some("ann"));
        assert_eq!(spool_user("/etc/cron.d/a"), None);
    }
}
