//! `matins import crontab`: crontabs of the system and of users.
//!
//! What cron gives a command it goes on having: the shell it was written for, its settings, the
//! directory it starts in, the time zone of `date`. What cron never said, a manifest must, and
//! where the answer was nobody's it is marked so.

mod anacron;
mod command;
mod line;
mod user_field;

use std::collections::BTreeMap;

use jobs::Dialect;

use self::command::{called, is_in_background, plain_words, split_input, with_input};
use self::line::{Crontab, Line, What, parse_crontab, split_word};
use self::user_field::{UserField, Verdict, detect, is_of_time, spool_user};
use super::account::{Account, Entry, Kind};
use super::draft::{
    Draft, Said, expected_duration_unsaid, literal, timeout_unsaid, with_environment,
};
use super::names::{Names, with_digest};
use super::{Asked, Misses, Undecided, judge_schedule};

/// Settings of cron's mail, which nobody sends here.
const OF_MAIL: [&str; 4] = [
    "MAILTO",
    "MAILFROM",
    "CONTENT_TYPE",
    "CONTENT_TRANSFER_ENCODING",
];

/// Shells that read `-c` and a here-document.
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"];

/// What stands about a line.
struct Around {
    /// Settings above it.
    settings: BTreeMap<String, String>,
    /// The comment right above it.
    comment: String,
}

/// Reads one crontab. `None` as to the user field is: detect it.
pub(crate) fn import_crontab(
    file: &str,
    bytes: &[u8],
    asked: &Asked,
    names: &mut Names,
) -> Result<Account, Undecided> {
    let mut account = Account::of(file, bytes);
    let crontab = parse_crontab(bytes);
    if anacron::is_anacrontab(file, &crontab) {
        anacron::report(&crontab, &mut account);
        account.settle();
        return Ok(account);
    }
    let user_field = match asked.user_field {
        Some(field) => field,
        None => decide_user_field(file, &crontab, &mut account)?,
    };
    let reader = Reader {
        file,
        asked,
        user_field,
    };
    let mut around = Around {
        settings: BTreeMap::new(),
        comment: String::new(),
    };
    for line in &crontab.lines {
        reader.read(line, &mut around, names, &mut account)?;
        if account.is_overfull() {
            return Ok(account);
        }
    }
    note_the_whole(&crontab, &mut account);
    account.settle();
    Ok(account)
}

fn decide_user_field(
    file: &str,
    crontab: &Crontab,
    account: &mut Account,
) -> Result<bool, Undecided> {
    let why = match detect(file, crontab) {
        Verdict::Is(UserField::Yes) => {
            account.notes.push(
                "a user was read before each command (`--user-field yes`, by evidence)".to_owned(),
            );
            return Ok(true);
        }
        Verdict::Is(UserField::No) => return Ok(false),
        Verdict::Disputed { yes, no } => {
            format!("{yes} of its lines look so, and {no} cannot")
        }
        Verdict::Unknown { line } => format!("line {line} can be read either way"),
    };
    Err(Undecided {
        what: format!("telling whether {file} names a user before each command"),
        why,
        remedy: "say it: `--user-field yes` as in /etc/cron.d, `--user-field no` as in \
                 `crontab -l`"
            .to_owned(),
    })
}

/// What Debian's cron makes of the file, where that is nothing.
fn note_the_whole(crontab: &Crontab, account: &mut Account) {
    if crontab.has_bom {
        account
            .notes
            .push("a byte order mark stands at its beginning, and was left out".to_owned());
    }
    if crontab.has_cr {
        account.notes.push(
            "its lines end in CR LF: cron hands the CR to the command, here it was left out"
                .to_owned(),
        );
    }
    let empty = crontab.lines.iter().find(
        |line| matches!(&line.what, What::Setting { value, .. } if value.is_empty() && line.text.trim_end().ends_with('=')),
    );
    let why = match (account.bad().next(), empty) {
        (Some(bad), _) => Some(format!(
            "of line {}: one that it cannot read is enough",
            bad.line
        )),
        (None, Some(line)) => Some(format!(
            "of line {}: it wants quotes about an empty value",
            line.number
        )),
        (None, None) if crontab.is_open => Some("its last line is not ended".to_owned()),
        (None, None) => None,
    };
    if let Some(why) = why {
        account.notes.push(format!(
            "Debian's cron runs nothing of this file because {why}"
        ));
    }
}

struct Reader<'a> {
    file: &'a str,
    asked: &'a Asked,
    user_field: bool,
}

impl Reader<'_> {
    fn read(
        &self,
        line: &Line,
        around: &mut Around,
        names: &mut Names,
        account: &mut Account,
    ) -> Result<(), Undecided> {
        let entry = |kind| Entry::new(kind, line.number, line.number, line.text.trim());
        match &line.what {
            What::Blank => {
                around.comment.clear();
                account.push(entry(Kind::Blank));
            }
            What::Comment(text) => {
                if says_something(text) {
                    if !around.comment.is_empty() {
                        around.comment.push(' ');
                    }
                    around.comment.push_str(text);
                } else {
                    around.comment.clear();
                }
                account.push(entry(Kind::Comment));
            }
            What::Setting { name, value } => {
                around.comment.clear();
                account.push(
                    entry(Kind::Environment)
                        .because(what_becomes_of(name, value), "")
                        .reading("name", name.as_str())
                        .reading("value", value.as_str()),
                );
                around.settings.insert(name.clone(), value.clone());
            }
            What::Bad { why, remedy } => {
                around.comment.clear();
                account.push(entry(Kind::Bad).because(why.as_str(), remedy.as_str()));
            }
            What::Entry {
                schedule,
                rest,
                quiet,
            } => {
                let comment = std::mem::take(&mut around.comment);
                match self.job(line, schedule, rest, around, &comment, names) {
                    Ok((mut draft, read)) => {
                        if *quiet {
                            let said = "A `-` before the minute keeps it out of cron's own log; \
                                        nothing here does that.";
                            draft.decide.push(said.to_owned());
                        }
                        account.push_job(entry(Kind::Job).reading_all(read), draft);
                    }
                    Err(misses) => account.push_missed(entry, misses)?,
                }
            }
        }
        Ok(())
    }

    fn job(
        &self,
        line: &Line,
        schedule: &str,
        rest: &str,
        around: &Around,
        comment: &str,
        names: &mut Names,
    ) -> Result<Found, Misses> {
        let (user, text) = if self.user_field && !is_of_time(split_word(rest).0) {
            let (user, text) = split_word(rest);
            (Some(user.to_owned()), text)
        } else {
            let spool = spool_user(self.file).map(ToOwned::to_owned);
            (self.asked.user.clone().or(spool), rest)
        };
        let first = split_word(text).0;
        if first.is_empty() || first.starts_with('%') {
            return Err(Misses::bad(
                "the command is missing",
                "write it, or delete the line",
            ));
        }
        if is_of_time(first) {
            return Err(Misses::bad(
                format!(
                    "where the command belongs stands `{first}`: six or seven fields of time are \
                     of another cron, with seconds or years"
                ),
                "keep the five fields of minute to day of week, or write the job by hand with \
                 `dialect: quartz`",
            ));
        }
        if schedule == "@reboot" {
            return Err(Misses::not_carried_over(
                "`@reboot` is no time: it is due whenever a host starts",
                "make a systemd unit of it",
            ));
        }
        let (timezone, zone_why) = match (around.settings.get("CRON_TZ"), &self.asked.timezone) {
            (Some(zone), _) => (zone.clone(), "CRON_TZ of the crontab"),
            (None, Some(zone)) => (zone.clone(), "--timezone"),
            (None, None) => {
                return Err(Misses::Undecided(Undecided::timezone(
                    self.file,
                    line.number,
                    "a crontab's hours are of the zone of its machine (`timedatectl` says which), \
                     and the file does not say it",
                )));
            }
        };
        judge_schedule(schedule, &timezone, Dialect::Vixie)?;
        let job = Job {
            schedule,
            user,
            text,
            timezone,
            zone_why,
        };
        self.draft(line, &job, around, comment, names)
    }

    fn draft(
        &self,
        line: &Line,
        job: &Job,
        around: &Around,
        comment: &str,
        names: &mut Names,
    ) -> Result<Found, Misses> {
        let user = job.user.as_deref().unwrap_or_default();
        let called = called(&split_input(job.text).line);
        let name = with_digest(&called, &[job.schedule, user, job.text]);
        let mut decide = Vec::new();
        let exec = exec(job, around, self.asked.timezone.as_deref(), &mut decide)?;
        let mail_to = around.settings.get("MAILTO").filter(|to| !to.is_empty());
        let of_mail = mail_to.map(|to| Said::new(to, "MAILTO"));
        let of_user = job.user.as_ref();
        let of_user = of_user.map(|user| Said::new(user, "the user: put the team that is asked"));
        let purpose = match comment {
            "" => format!(
                "Imported from a crontab: {}",
                super::account::cut(job.text, 200)
            ),
            comment => super::account::cut(comment, 400),
        };
        let mut read = vec![("schedule", job.schedule.to_owned())];
        read.extend(job.user.clone().map(|user| ("user", user)));
        read.push(("command", job.text.to_owned()));
        read.push(("timezone", job.timezone.clone()));
        let draft = Draft {
            name: names.take(self.asked.namespace.as_deref().unwrap_or("cron"), &name),
            source: format!("crontab {}", self.file),
            line: line.number,
            original: line.text.trim().to_owned(),
            purpose,
            owner: self.asked.owner(of_mail.or(of_user)),
            cron: job.schedule.to_owned(),
            timezone: Said::new(&job.timezone, job.zone_why),
            misfire: Said::new("{ policy: skip, after: 60s }", "cron runs nothing later"),
            overlap: Said::new(
                "allow",
                "as cron: beside the run before. Mostly `forbid` is meant",
            ),
            expected_duration: expected_duration_unsaid(),
            timeout: timeout_unsaid(),
            retry: Said::new("{ at_most: 0 }", "cron tries nothing again"),
            exec: exec.arguments,
            exec_remark: exec.remark,
            user_remark: match job.user {
                None => "the user whose crontab it was; without it, the one whom the agent runs as"
                    .to_owned(),
                Some(_) => String::new(),
            },
            user: job.user.clone(),
            decide,
            ..Draft::default()
        };
        Ok((draft, read))
    }
}

/// A line that is a job, in its parts.
struct Job<'a> {
    schedule: &'a str,
    user: Option<String>,
    text: &'a str,
    timezone: String,
    zone_why: &'static str,
}

/// The draft, and what was read for it.
type Found = (Draft, Vec<(&'static str, String)>);

struct Exec {
    arguments: Vec<String>,
    remark: String,
}

/// The command line with everything that cron would give it.
fn exec(
    job: &Job,
    around: &Around,
    machine_zone: Option<&str>,
    decide: &mut Vec<String>,
) -> Result<Exec, Misses> {
    let command = split_input(job.text);
    let mut environment: BTreeMap<&str, &str> = BTreeMap::new();
    // `date` in a command tells the machine's time, under Matins UTC.
    let zone = machine_zone.unwrap_or(&job.timezone);
    if !is_utc(zone) {
        environment.insert("TZ", zone);
    }
    for (name, value) in &around.settings {
        let name = name.as_str();
        if OF_MAIL.contains(&name) || matches!(name, "CRON_TZ" | "RANDOM_DELAY") {
            continue;
        }
        if value.contains('$') {
            decide.push(format!(
                "cron does not fill `$` in {name}={value}; it is handed on as it stands."
            ));
        }
        environment.insert(name, value);
    }
    let mut arguments = with_environment(&environment);
    if command
        .line
        .split_ascii_whitespace()
        .any(|w| w.ends_with("run-parts"))
    {
        decide.push("run-parts runs a directory of programs: a job for each would be retried, timed and seen alone.".to_owned());
    }
    if is_in_background(&command.line) {
        decide.push("The command leaves something in the background (`&`): the attempt lasts until that has ended too. Leave the `&` out.".to_owned());
    }
    if command.input.is_none()
        && let Some(words) = plain_words(&command.line)
    {
        arguments.extend(words.into_iter().map(literal));
        return Ok(Exec {
            arguments,
            remark: String::new(),
        });
    }
    let shell = around
        .settings
        .get("SHELL")
        .map_or("/bin/sh", String::as_str);
    let reads_here = SHELLS.contains(&shell.rsplit('/').next().unwrap_or(shell));
    let mut script = String::new();
    if reads_here && (job.user.is_some() || around.settings.contains_key("HOME")) {
        script.push_str("cd \"$HOME\" || exit\n");
    } else {
        decide.push("cron starts the command in its user's home directory, Matins in an empty one: see that it names files by their full paths.".to_owned());
    }
    match &command.input {
        Some(input) if reads_here => script.push_str(&with_input(&command.line, input)),
        Some(_) => {
            return Err(Misses::not_carried_over(
                format!(
                    "what stands behind `%` is standard input, which `{shell}` cannot be given"
                ),
                "put the command into a script of its own",
            ));
        }
        None => script.push_str(&command.line),
    }
    arguments.extend([literal(shell), "-c".to_owned(), literal(&script)]);
    let remark = if command.input.is_some() {
        "a line for a shell, as cron had it; what stood behind `%` is its input"
    } else {
        "a line for a shell, as cron had it"
    };
    Ok(Exec {
        arguments,
        remark: remark.to_owned(),
    })
}

fn is_utc(zone: &str) -> bool {
    matches!(
        zone,
        "UTC" | "Etc/UTC" | "Etc/GMT" | "GMT" | "Zulu" | "Etc/Zulu" | "UCT" | "Etc/UCT"
    )
}

/// What becomes of a setting, for the report.
fn what_becomes_of(name: &str, value: &str) -> String {
    let said = match name {
        "MAILTO" if value.is_empty() => "no mail was sent; Matins keeps all output",
        "MAILTO" => "the owner of the jobs below; Matins keeps output and sends no mail",
        name if OF_MAIL.contains(&name) => "of cron's mail, which Matins does not send",
        "CRON_TZ" => "the zone of the schedules below",
        "TZ" => "handed to the programs below; cron's own hours do not follow it",
        "SHELL" => "runs the commands below",
        "RANDOM_DELAY" => "not carried over: Matins fires on time",
        _ => "handed to the programs below",
    };
    said.to_owned()
}

/// Whether a comment tells what a job is for: no drawing, no list of fields, no job switched off.
fn says_something(comment: &str) -> bool {
    let letters = comment.chars().filter(|c| c.is_alphabetic()).count();
    let words: Vec<&str> = comment.split_ascii_whitespace().collect();
    let names_fields = [
        "min", "hour", "dom", "mon", "dow", "command", "mday", "wday",
    ]
    .iter()
    .filter(|field| {
        words
            .iter()
            .any(|word| word.to_lowercase().starts_with(**field))
    })
    .count();
    let is_job = words.len() > 5 && words[..5].iter().all(|word| is_of_time(word));
    letters * 2 > comment.len() && names_fields < 3 && !is_job
}
