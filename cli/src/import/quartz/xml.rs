//! `quartz_data.xml`, of Quartz 1.x and 2.x.

use std::collections::{BTreeMap, BTreeSet};

use roxmltree::{Document, Node, ParsingOptions};

use super::super::account::{Account, Entry, Kind};
use super::super::names::Names;
use super::super::{Asked, Undecided};
use super::trigger::{Fires, GROUP, Job, Trigger, draft};

/// Most nodes of a document.
const NODES_MAX: u32 = 1_000_000;

/// Deepest nesting of elements; the library is not asked to go deeper. Quartz has six.
const DEPTH_MAX: usize = 64;

pub(super) fn import(
    text: &str,
    asked: &Asked,
    names: &mut Names,
    account: &mut Account,
) -> Result<(), Undecided> {
    let text = text.trim_start_matches('\u{feff}');
    if is_deep(text) {
        account.refuse_whole(
            format!("its elements are nested deeper than {DEPTH_MAX} levels"),
            "see that it is the right file",
        );
        return Ok(());
    }
    let options = ParsingOptions {
        allow_dtd: true,
        nodes_limit: NODES_MAX,
        ..ParsingOptions::default()
    };
    let document = match Document::parse_with_options(text, options) {
        Ok(document) => document,
        Err(error) => {
            account.refuse_whole(format!("it is no XML: {error}"), "mend it");
            return Ok(());
        }
    };
    let root = document.root_element();
    let reader = Reader {
        document: &document,
        line_ends: memchr::memchr_iter(b'\n', text.as_bytes()).collect(),
        jobs: root
            .descendants()
            .filter(is_job)
            .map(|node| {
                let job = job_of(node);
                ((job.group.clone(), job.name.clone()), job)
            })
            .collect(),
    };
    if reader.jobs.is_empty() && !root.descendants().any(|node| is_trigger(&node)) {
        account.refuse_whole(
            format!(
                "it has neither job nor trigger: its root is <{}>",
                root.tag_name().name()
            ),
            "name a file with <job-scheduling-data>; of Spring's beans nothing is read",
        );
        return Ok(());
    }
    reader.frame(text, account);
    reader.directives(root, account);
    let mut fired: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for node in root.descendants().filter(is_trigger) {
        reader.trigger(node, asked, names, account, &mut fired)?;
    }
    for node in root.descendants().filter(is_job) {
        reader.job(node, &fired, account);
    }
    account.settle();
    Ok(())
}

/// Counts brackets, without understanding them: an upper bound that no XML of ours comes near to.
fn is_deep(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut depth: usize = 0;
    for at in memchr::memchr_iter(b'<', bytes) {
        match bytes.get(at + 1) {
            Some(b'/') => depth = depth.saturating_sub(1),
            Some(b'!' | b'?') => {}
            _ => {
                let end = memchr::memchr(b'>', &bytes[at..]).map_or(bytes.len(), |end| at + end);
                if end == 0 || bytes.get(end - 1) != Some(&b'/') {
                    depth += 1;
                }
            }
        }
        if depth > DEPTH_MAX {
            return true;
        }
    }
    false
}

/// In 1.x a job holds its details and its triggers.
fn is_job(node: &Node) -> bool {
    let name = node.tag_name().name();
    name == "job-detail" || name == "job" && child(*node, "job-detail").is_none()
}

fn is_trigger(node: &Node) -> bool {
    let is_in_trigger = |parent: Node| parent.tag_name().name() == "trigger";
    node.is_element() && node.parent().is_some_and(is_in_trigger)
}

fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children()
        .find(|child| child.tag_name().name() == name)
}

/// The text of a child, without blanks about it; nothing where it is empty.
fn text_of(node: Node, name: &str) -> Option<String> {
    let text: String = child(node, name)?
        .children()
        .filter(Node::is_text)
        .filter_map(|part| part.text())
        .collect();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn data_of(node: Node) -> BTreeMap<String, String> {
    child(node, "job-data-map")
        .into_iter()
        .flat_map(|map| map.children())
        .filter(|entry| entry.tag_name().name() == "entry")
        .filter_map(|entry| {
            let value = text_of(entry, "value").unwrap_or_default();
            Some((text_of(entry, "key")?, value))
        })
        .collect()
}

fn job_of(node: Node) -> Job {
    let class = text_of(node, "job-class").unwrap_or_default();
    Job {
        name: text_of(node, "name").unwrap_or_default(),
        group: text_of(node, "group").unwrap_or_else(|| GROUP.to_owned()),
        description: text_of(node, "description").unwrap_or_default(),
        data: data_of(node),
        is_alone: None,
        has_object: false,
        class,
    }
}

fn trigger_of(node: Node, line: u32) -> Trigger {
    // In 1.x the trigger stands within its job, which it need not name.
    let around = node
        .ancestors()
        .find(|above| above.tag_name().name() == "job")
        .and_then(|job| child(job, "job-detail"))
        .map(job_of);
    let number = |name: &str| text_of(node, name).and_then(|text| text.parse().ok());
    let fires = match node.tag_name().name() {
        "cron" => Fires::Cron(text_of(node, "cron-expression").unwrap_or_default()),
        "simple" => Fires::Simple {
            repeat: match text_of(node, "repeat-count").as_deref() {
                Some("REPEAT_INDEFINITELY") => -1,
                Some(text) => text.parse().unwrap_or(0),
                None => 0,
            },
            interval_ms: number("repeat-interval").unwrap_or(0),
        },
        "calendar-interval" => Fires::Calendar {
            interval: number("repeat-interval").unwrap_or(0),
            unit: text_of(node, "repeat-interval-unit").unwrap_or_default(),
        },
        other => Fires::Other(other.to_owned()),
    };
    let job = (
        text_of(node, "job-name").or_else(|| around.as_ref().map(|job| job.name.clone())),
        text_of(node, "job-group").or_else(|| around.map(|job| job.group)),
    );
    Trigger {
        line,
        name: text_of(node, "name").unwrap_or_default(),
        group: text_of(node, "group").unwrap_or_else(|| GROUP.to_owned()),
        job: (
            job.0.unwrap_or_default(),
            job.1.unwrap_or_else(|| GROUP.to_owned()),
        ),
        description: text_of(node, "description").unwrap_or_default(),
        data: data_of(node),
        fires,
        misfire: text_of(node, "misfire-instruction").unwrap_or_default(),
        zone: text_of(node, "time-zone"),
        start: text_of(node, "start-time"),
        end: text_of(node, "end-time"),
        calendar: text_of(node, "calendar-name"),
        is_off: false,
    }
}

struct Reader<'a, 'i> {
    document: &'a Document<'i>,
    line_ends: Vec<usize>,
    jobs: BTreeMap<(String, String), Job>,
}

impl Reader<'_, '_> {
    fn lines(&self, node: Node) -> (u32, u32) {
        let range = node.range();
        // The document can tell a line too, but counts from its beginning each time.
        let line = |at: usize| {
            let before = self.line_ends.partition_point(|&end| end < at);
            u32::try_from(before + 1).unwrap_or(u32::MAX)
        };
        (
            line(range.start),
            line(range.end.saturating_sub(1).max(range.start)),
        )
    }

    /// Every line as what it is at least: blank, comment, or structure.
    fn frame(&self, text: &str, account: &mut Account) {
        let lines: Vec<&str> = text.lines().collect();
        let mut comments = BTreeSet::new();
        for node in self.document.root().descendants().filter(Node::is_comment) {
            let (line, through) = self.lines(node);
            for number in line..=through {
                let shown = lines
                    .get(number as usize - 1)
                    .map_or("", |line| line.trim());
                let begins = number > line || shown.starts_with("<!--");
                let ends = number < through || shown.ends_with("-->");
                if begins && ends {
                    comments.insert(number);
                }
            }
        }
        for (number, line) in (1..).zip(&lines) {
            let kind = match line.trim() {
                "" => Kind::Blank,
                _ if comments.contains(&number) => Kind::Comment,
                _ => Kind::Frame,
            };
            account.push(Entry::new(kind, number, number, ""));
        }
    }

    fn directives(&self, root: Node, account: &mut Account) {
        for node in root.children().filter(Node::is_element) {
            let name = node.tag_name().name();
            if matches!(name, "pre-processing-commands" | "processing-directives") {
                let (line, through) = self.lines(node);
                account.push(
                    Entry::new(Kind::NotCarriedOver, line, through, name)
                        .because("it says what Quartz does when it loads the file", ""),
                );
            }
        }
    }

    fn trigger(
        &self,
        node: Node,
        asked: &Asked,
        names: &mut Names,
        account: &mut Account,
        fired: &mut BTreeMap<(String, String), Vec<String>>,
    ) -> Result<(), Undecided> {
        let (line, through) = self.lines(node.parent().unwrap_or(node));
        let trigger = trigger_of(node, line);
        let key = (trigger.job.1.clone(), trigger.job.0.clone());
        let job = self.jobs.get(&key);
        fired.entry(key).or_default().push(trigger.name.clone());
        let shown = format!("trigger {}.{}", trigger.group, trigger.name);
        let entry = |kind| {
            let entry = Entry::new(kind, line, through, &shown)
                .reading("trigger", trigger.name.as_str())
                .reading("group", trigger.group.as_str())
                .reading("job", trigger.job.0.as_str())
                .reading("kind", node.tag_name().name());
            match &trigger.fires {
                Fires::Cron(cron) => entry.reading("cron_expression", cron.trim()),
                _ => entry,
            }
        };
        match draft(&trigger, job, &account.file, asked, names) {
            Ok(draft) => account.push_job(entry(Kind::Job), draft),
            Err(misses) => account.push_missed(entry, misses)?,
        }
        Ok(())
    }

    fn job(
        &self,
        node: Node,
        fired: &BTreeMap<(String, String), Vec<String>>,
        account: &mut Account,
    ) {
        let job = job_of(node);
        let (line, through) = self.lines(node);
        let shown = format!("job {}.{} ({})", job.group, job.name, job.class);
        let entry = |kind| Entry::new(kind, line, through, &shown);
        account.push(match fired.get(&(job.group, job.name)) {
            Some(triggers) => {
                entry(Kind::Environment).because(format!("what {} runs", triggers.join(", ")), "")
            }
            None => entry(Kind::NotCarriedOver).because(
                "no trigger of this file fires it",
                "write a manifest with the hours you want, if it is to run",
            ),
        });
    }
}
