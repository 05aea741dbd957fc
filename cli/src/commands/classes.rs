//! `matins classes`: which hosts are of which class, and why a host is not.

use std::path::Path;

use coordinator::{ClassFile, ClassFileError};
use hardware::Root;
use probes::read_profile;
use protocol::api::{AgentClasses, ClassRule, ClassStanding, Classes, HostClass};
use protocol::host::{FACTS, FactSpec, Form};
use protocol::{AgentName, ClassName, HostFacts};
use serde_json::json;

use super::agent_path;
use crate::args;
use crate::failure::Failure;
use crate::output::{Format, Room, talk};
use crate::paint::{Tone, toned};
use crate::text::{LINE_WIDTH, Table, count, printable, wrap_prose};

/// Hosts that are named of a class.
const NAMED_MAX: usize = 40;

pub(crate) fn classes(options: &args::Classes) -> Result<(), Failure> {
    let output = options.asking.output;
    if options.facts {
        return show_facts(output);
    }
    if options.here {
        let file = read_file(options.file.as_deref())?;
        let scores = scores_kept_in(&options.disk);
        if scores.is_none() {
            talk(UNMEASURED);
        }
        let root = Root::directory(Path::new("/"));
        let profile = read_profile(&root, &options.disk, scores.as_ref());
        let standings = file.classes.of(&profile.facts).show();
        return show_host("this machine", standings, options.class.as_ref(), output);
    }
    if options.file.is_some() {
        let file = read_file(options.file.as_deref())?;
        let from = file.from.map(|path| path.to_string_lossy().into_owned());
        let classes = file.classes.show(from, []);
        return show_classes(classes, options.class.as_ref(), false, output);
    }
    let client = options.asking.target.find()?;
    if let Some(agent) = &options.agent {
        let found: AgentClasses = client.get(&format!("{}/classes", agent_path(agent)), &[])?;
        let class = options.class.as_ref();
        return show_host(agent.as_str(), found.classes, class, output);
    }
    let classes: Classes = client.get("/api/v1/classes", &[])?;
    show_classes(classes, options.class.as_ref(), true, output)
}

const UNMEASURED: &str = "what this machine can do was not measured: its agent does so, with --disk naming \
    its directory, and\n`matins hardware --probe` shows it";

/// Of the agent whose directory this is, or is below it as the guide to a site has it.
pub(crate) fn scores_kept_in(disk: &Path) -> Option<HostFacts> {
    agent::kept_scores(disk).or_else(|| agent::kept_scores(&disk.join("agent")))
}

fn read_file(named: Option<&Path>) -> Result<ClassFile, Failure> {
    ClassFile::read(named).map_err(|error| match error {
        ClassFileError::Wrong(problems) => {
            let listed: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
            Failure::bad_input(
                format!(
                    "reading the class file: {}",
                    count(listed.len() as u64, "problem")
                ),
                listed.join("\n"),
                "correct the file; `matins classes --facts` lists what a rule can name",
            )
        }
        ClassFileError::Read { path, source } => Failure::bad_input(
            format!("reading the class file {}", path.display()),
            source.to_string(),
            "name a file that can be read",
        ),
    })
}

fn unknown_class(class: &ClassName, known: Vec<&ClassName>) -> Failure {
    let known: Vec<&str> = known.into_iter().map(ClassName::as_str).collect();
    Failure::bad_input(
        format!("showing class {class}"),
        "there is no class of that name",
        format!("name one of {}", known.join(", ")),
    )
}

fn width(room: Room) -> usize {
    match room {
        Room::Columns80 => LINE_WIDTH,
        Room::Endless => usize::MAX,
    }
}

// -- classes ------------------------------------------------------------------------------------

/// `hosts`: whether it is known who is in each.
fn show_classes(
    mut classes: Classes,
    only: Option<&ClassName>,
    hosts: bool,
    output: Format,
) -> Result<(), Failure> {
    if let Some(only) = only {
        if !classes.classes.iter().any(|class| class.class == *only) {
            let known = classes.classes.iter().map(|class| &class.class).collect();
            return Err(unknown_class(only, known));
        }
        classes.classes.retain(|class| class.class == *only);
    }
    output.print(&classes, |room| match &classes.classes[..] {
        [class] if only.is_some() => one_class(class, hosts, room),
        _ => all_classes(&classes, hosts, room),
    })
}

fn all_classes(classes: &Classes, hosts: bool, room: Room) -> String {
    let titles: &[&'static str] = if hosts {
        &["CLASS", "HOSTS", "UNJUDGED", "~FOR"]
    } else {
        &["CLASS", "~RULES", "~FOR"]
    };
    let mut table = Table::new(titles);
    for class in &classes.classes {
        let name = class.class.to_string();
        table.row(if hosts {
            let (members, unjudged) = (class.members.len(), class.unjudged.len());
            vec![
                name,
                members.to_string(),
                unjudged.to_string(),
                class.about.clone(),
            ]
        } else {
            let required = class.require.iter().map(|rule| rule.rule.clone());
            let refused = class.refuse.iter();
            let refused = refused.map(|rule| format!("not {}", rule.rule));
            let rules: Vec<String> = required.chain(refused).collect();
            vec![name, rules.join("; "), class.about.clone()]
        });
    }
    let health = &classes.health;
    let from = |health: &Option<String>| health.clone().unwrap_or_else(|| "never".to_owned());
    let source = classes.from.as_deref().map_or_else(
        || "the built-in classes".to_owned(),
        |path| format!("{}, beside the built-in classes", printable(path)),
    );
    let said = [
        format!("from {source}; digest {}", classes.digest),
        format!(
            "health: cordoned from {} (at most {} % of the hosts), told from {}",
            from(&health.cordon),
            health.cordon_at_most_percent,
            from(&health.alarm)
        ),
    ];
    let said = said.iter().flat_map(|line| wrap_prose(line, width(room)));
    let said: Vec<String> = said.collect();
    format!("{}\n{}\n", table.render_in(room), said.join("\n"))
}

fn one_class(class: &HostClass, hosts: bool, room: Room) -> String {
    let mut lines = Vec::new();
    let mut say = |indent: usize, text: &str| {
        let wrapped = wrap_prose(text, width(room).saturating_sub(indent));
        lines.extend(wrapped.iter().map(|line| format!("{:indent$}{line}", "")));
    };
    let name = &class.class;
    say(0, &format!("{name}: {}", printable(&class.about)));
    if class.require.is_empty() && class.refuse.is_empty() {
        say(2, "no rule decides: every host is in it");
    }
    let lists: [(&str, &[ClassRule]); 3] = [
        ("requires", &class.require),
        ("refuses", &class.refuse),
        ("warns of", &class.warn),
    ];
    for (word, rules) in lists {
        for rule in rules {
            let because = rule.because.as_deref();
            let because = because.map(|because| format!(": {}", printable(because)));
            let because = because.unwrap_or_default();
            say(2, &format!("{word} {}{because}", printable(&rule.rule)));
        }
    }
    if hosts {
        say(2, &format!("in it: {}", named(&class.members)));
        if !class.unjudged.is_empty() {
            let unjudged = named(&class.unjudged);
            say(2, &format!("cannot be judged: {unjudged}"));
        }
    }
    lines.join("\n") + "\n"
}

fn named(agents: &[AgentName]) -> String {
    let mut names: Vec<String> = agents
        .iter()
        .take(NAMED_MAX)
        .map(ToString::to_string)
        .collect();
    match agents.len() {
        0 => "no host".to_owned(),
        all if all > NAMED_MAX => {
            names.push(format!("and {} more", all - NAMED_MAX));
            names.join(", ")
        }
        _ => names.join(", "),
    }
}

// -- one host -----------------------------------------------------------------------------------

fn show_host(
    host: &str,
    mut standings: Vec<ClassStanding>,
    only: Option<&ClassName>,
    output: Format,
) -> Result<(), Failure> {
    if let Some(only) = only {
        if !standings.iter().any(|standing| standing.class == *only) {
            let known = standings.iter().map(|standing| &standing.class).collect();
            return Err(unknown_class(only, known));
        }
        standings.retain(|standing| standing.class == *only);
    }
    let answer = json!({ "agent": host, "classes": standings });
    output.print(&answer, |room| host_for_people(&standings, room))?;
    match standings
        .iter()
        .find(|standing| only.is_some() && !standing.member)
    {
        None => Ok(()),
        Some(standing) => Err(Failure::failed(
            format!("judging whether {host} is of class {}", standing.class),
            if standing.cannot_be_judged {
                "it cannot be judged: a fact that decides is unknown"
            } else {
                "it is not"
            },
            "see what is said above of its rules",
        )),
    }
}

fn host_for_people(standings: &[ClassStanding], room: Room) -> String {
    let mut lines = Vec::new();
    for standing in standings {
        let (word, tone) = if standing.member {
            ("yes", Tone::Good)
        } else if standing.cannot_be_judged {
            ("cannot be judged", Tone::Aside)
        } else {
            ("no", Tone::Bad)
        };
        lines.push(format!("{}: {}", standing.class, toned(word, Some(tone))));
        for finding in &standing.findings {
            let said = printable(&finding.says);
            let said = match finding.kind.as_str() {
                "warning" => format!("warning: {said}"),
                "unwarned" => format!("not known, may be a warning: {said}"),
                _ => said,
            };
            let wrapped = wrap_prose(&said, width(room).saturating_sub(4));
            for (place, line) in wrapped.iter().enumerate() {
                let mark = if place == 0 { "- " } else { "  " };
                lines.push(format!("  {mark}{line}"));
            }
        }
    }
    lines.join("\n") + "\n"
}

// -- facts --------------------------------------------------------------------------------------

fn show_facts(output: Format) -> Result<(), Failure> {
    let facts: Vec<_> = FACTS
        .iter()
        .map(|spec| json!({ "fact": spec.name, "form": form(spec), "meaning": spec.meaning }))
        .collect();
    output.print(&json!({ "facts": facts }), |room| {
        let mut table = Table::new(&["FACT", "~VALUE", "~MEANING"]);
        for spec in FACTS {
            table.row(vec![
                spec.name.to_owned(),
                form(spec),
                spec.meaning.to_owned(),
            ]);
        }
        table.render_in(room)
    })
}

fn form(spec: &FactSpec) -> String {
    match spec.form {
        Form::Truth => "true or false".to_owned(),
        Form::Number => "a number".to_owned(),
        Form::Word(words) => words.join(", "),
        Form::Text => "a text".to_owned(),
    }
}
