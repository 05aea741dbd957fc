//! Every truth that is stated of the corpus, answered by a report or named as not answered.
//!
//! A row of the table says what must stand in the report of a file: of an item by its id, of how many
//! items there are (`18 array`, `7 drive ok`), or of a problem. A truth of the corpus that no row answers
//! is printed and counted; a row whose question has gone from a file that is still there is an error, so that
//! the table cannot rot.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::answers::{ANSWERS, NOT_ANSWERED};
use super::{hosts, report_of, tool_of};

#[test]
fn truths_are_answered() {
    let Some(hosts) = hosts() else {
        return;
    };
    let text = std::fs::read_to_string(hosts.join("TRUTH.tsv")).unwrap();
    let rows = text.lines().skip(1).filter_map(|line| {
        let mut fields = line.split('\t');
        Some((fields.next()?, fields.next()?, fields.next()?))
    });
    let mut answers: BTreeMap<(&str, &str), &[(&str, &str)]> = ANSWERS
        .iter()
        .map(|(file, question, answer)| ((*file, *question), *answer))
        .collect();
    assert_eq!(
        answers.len(),
        ANSWERS.len(),
        "a question stands twice in the table"
    );
    let (mut answered, mut open, mut wrong) = (0, Vec::new(), Vec::new());
    for (file, question, truth) in rows {
        let Some(tool) = tool_of(file) else {
            continue;
        };
        let Some(answer) = answers.remove(&(file, question)) else {
            let why = NOT_ANSWERED
                .iter()
                .find(|(f, q, _)| (*f, *q) == (file, question));
            open.push(format!(
                "{file}: {question} ({})",
                why.map_or("no row of the table", |(_, _, why)| why)
            ));
            continue;
        };
        let report = serde_json::to_value(report_of(&hosts, file, tool)).unwrap();
        let missed: Vec<String> = answer
            .iter()
            .filter_map(|(who, what)| check(&report, who, what).err())
            .collect();
        if missed.is_empty() {
            answered += 1;
        } else {
            wrong.push(format!(
                "{file}: {question}\n  true is: {truth}\n  {}",
                missed.join("\n  ")
            ));
        }
    }
    println!("{answered} truths answered, {} not:", open.len());
    for row in &open {
        println!("  {row}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let files: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.split('\t').next())
        .collect();
    let gone = answers.keys().filter(|(file, _)| files.contains(file));
    let gone: Vec<_> = gone.collect();
    assert!(gone.is_empty(), "no longer in TRUTH.tsv: {gone:?}");
}

fn check(report: &Value, who: &str, what: &str) -> Result<(), String> {
    let items = report["items"].as_array().unwrap();
    if who == "problem" {
        let problems = report["problems"].as_array().unwrap();
        let has = problems
            .iter()
            .any(|problem| problem["what"].as_str().unwrap().contains(what));
        return if has {
            Ok(())
        } else {
            Err(format!("no problem says {what:?}: {problems:?}"))
        };
    }
    let words: Vec<&str> = who.split(' ').collect();
    if let ([count, kind] | [count, kind, _], Ok(expected)) =
        (words.as_slice(), words[0].parse::<usize>())
    {
        let health = words.get(2);
        let found = items.iter().filter(|item| {
            item["kind"] == **kind && health.is_none_or(|health| item["health"] == **health)
        });
        let found = found.count();
        return if found == expected {
            Ok(())
        } else {
            Err(format!("{count} {kind}: there are {found}"))
        };
    }
    let item = items.iter().find(|item| item["id"] == who);
    let item = item.ok_or_else(|| {
        let ids: Vec<&Value> = items.iter().map(|item| &item["id"]).collect();
        format!("no item is called {who}: {ids:?}")
    })?;
    for fact in what.split_whitespace() {
        check_fact(item, fact).map_err(|why| format!("{who}: {why}"))?;
    }
    Ok(())
}

fn check_fact(item: &Value, fact: &str) -> Result<(), String> {
    let at = fact.find(['=', '~']).expect("a fact has = or ~");
    let (name, expected) = (&fact[..at], fact[at + 1..].replace('*', " "));
    let said = match item.get(name) {
        None => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.as_f64().unwrap().to_string(),
        Some(other) => other.to_string(),
    };
    let expected_number = expected.parse::<f64>().map(|number| number.to_string());
    let holds = if fact[at..].starts_with('~') {
        said.contains(&expected)
    } else {
        said == expected || Ok(&said) == expected_number.as_ref()
    };
    if holds {
        Ok(())
    } else {
        Err(format!("{name} is {said:?}, not {expected:?}"))
    }
}
