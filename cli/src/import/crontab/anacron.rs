//! Anacrontabs: told apart from crontabs, and reported.
//!
//! A line of one has a period in days and no hour. Matins asks for an hour, and nobody but its
//! owner knows one; so the report says for each line what to write.

use super::super::account::{Account, Entry, Kind};
use super::line::{Crontab, Line, What, split_word};

/// `period delay identifier command`.
struct Job<'a> {
    period: &'a str,
    delay: &'a str,
    id: &'a str,
    command: &'a str,
}

pub(super) fn is_anacrontab(file: &str, crontab: &Crontab) -> bool {
    let base = file.rsplit('/').next().unwrap_or(file);
    let mut entries = 0;
    let mut fitting = 0;
    for line in &crontab.lines {
        if matches!(line.what, What::Entry { .. } | What::Bad { .. }) {
            entries += 1;
            fitting += u32::from(job(line).is_some());
        }
    }
    fitting > 0 && (fitting == entries || base.starts_with("anacrontab"))
}

fn job(line: &Line) -> Option<Job<'_>> {
    let (period, rest) = split_word(&line.text);
    let (delay, rest) = split_word(rest);
    let (id, command) = split_word(rest);
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let named = ["@daily", "@weekly", "@monthly", "@yearly", "@annually"];
    let fits = (is_number(period) || named.contains(&period))
        && is_number(delay)
        && id.starts_with(|c: char| c.is_ascii_alphabetic())
        && !id.contains('/')
        && !command.is_empty();
    fits.then_some(Job {
        period,
        delay,
        id,
        command,
    })
}

pub(super) fn report(crontab: &Crontab, account: &mut Account) {
    account.notes.push(
        "this is an anacrontab: its jobs have a period and no hour, so no manifest was written"
            .to_owned(),
    );
    let first_hour = crontab.lines.iter().find_map(|line| match &line.what {
        What::Setting { name, value } if name == "START_HOURS_RANGE" => value
            .split('-')
            .next()
            .and_then(|hour| hour.trim().parse().ok())
            .filter(|hour: &u32| *hour < 24),
        _ => None,
    });
    for line in &crontab.lines {
        let entry = |kind| Entry::new(kind, line.number, line.number, line.text.trim());
        account.push(match (&line.what, job(line)) {
            (_, Some(job)) => entry(Kind::NotCarriedOver)
                .because(
                    format!(
                        "`{}` is due {}, {} minutes after the host has started: no hour is named",
                        job.id,
                        period(job.period),
                        job.delay
                    ),
                    what_to_write(&job, first_hour),
                )
                .reading("period", job.period)
                .reading("delay", job.delay)
                .reading("id", job.id)
                .reading("command", job.command),
            (What::Blank, _) => entry(Kind::Blank),
            (What::Comment(_), _) => entry(Kind::Comment),
            (What::Setting { name, value }, _) => entry(Kind::Environment)
                .because("not carried over with the jobs below", "")
                .reading("name", name.as_str())
                .reading("value", value.as_str()),
            (What::Bad { .. } | What::Entry { .. }, None) => entry(Kind::Bad).because(
                "it is no line of an anacrontab: period in days, delay in minutes, identifier, command",
                "mend or delete it",
            ),
        });
    }
}

fn period(period: &str) -> String {
    match period {
        "1" | "@daily" => "once a day".to_owned(),
        "7" | "@weekly" => "once a week".to_owned(),
        "@monthly" => "once a month".to_owned(),
        "@yearly" | "@annually" => "once a year".to_owned(),
        days => format!("every {days} days"),
    }
}

fn what_to_write(job: &Job, first_hour: Option<u32>) -> String {
    let minute = job.delay.parse::<u32>().unwrap_or(0) % 60;
    let hour = first_hour.unwrap_or(3);
    let cron = match job.period {
        "1" | "@daily" => format!("{minute} {hour} * * *"),
        "7" | "@weekly" => format!("{minute} {hour} * * 0"),
        "@yearly" | "@annually" => format!("{minute} {hour} 1 1 *"),
        "@monthly" => format!("{minute} {hour} 1 * *"),
        days => {
            let hours = days.parse::<u64>().unwrap_or(1).saturating_mul(24);
            return format!(
                "write a manifest with `cron: \"@every {hours}h\"` and `misfire: {{ policy: run_now }}`"
            );
        }
    };
    format!(
        "write a manifest with `cron: \"{cron}\"`, or the hour you want, and `misfire: {{ policy: run_now }}`"
    )
}
