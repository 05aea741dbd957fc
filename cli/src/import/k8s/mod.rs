//! `matins import k8s`: CronJobs of Kubernetes.
//!
//! A CronJob says when, how often and what beside; what it runs is a container, and that stays
//! behind: Matins starts programs of the host. So schedule and policies are carried over in full,
//! command and plain variables too, and everything that came with the image is named.

mod cronjob;

use self::cronjob::CronJob;
use super::account::{Account, Entry, Kind};
use super::names::Names;
use super::tree::{Document, Node, documents, parse_document};
use super::{Asked, Undecided};

const HELM: &str = "render it first: `helm template CHART | matins import k8s - ...`";

/// API versions whose CronJobs have the form that is read.
const VERSIONS: [&str; 3] = ["batch/v1", "batch/v1beta1", "batch/v2alpha1"];

pub(crate) fn import_k8s(
    file: &str,
    bytes: &[u8],
    asked: &Asked,
    names: &mut Names,
) -> Result<Account, Undecided> {
    let mut account = Account::of(file, bytes);
    let Some(text) = account.decode(bytes) else {
        return Ok(account);
    };
    let documents = documents(&text);
    // Each document is read twice and none is kept: a dump of a cluster is large.
    let (mut unreadable, mut has_template) = (false, false);
    for document in &documents {
        match parse_document(document) {
            Err(_) => unreadable = true,
            Ok(node) => has_template |= node.as_ref().is_some_and(is_of_template),
        }
    }
    if has_template || (unreadable && text.contains("{{")) {
        let line = text
            .lines()
            .position(|line| line.contains("{{"))
            .unwrap_or(0)
            + 1;
        account.refuse_whole(
            format!("it is a Helm template, not yet YAML: `{{{{` stands in line {line}"),
            HELM,
        );
        return Ok(account);
    }
    let mut importer = Importer {
        asked,
        names,
        account,
    };
    for document in &documents {
        match parse_document(document) {
            Err(error) => importer.account.push(
                Entry::new(Kind::Bad, document.line, document.through, "").because(
                    format!("line {}: {}", error.line, error.why),
                    "mend it; `kubectl apply --dry-run=client -f` says what it makes of it",
                ),
            ),
            Ok(None) => empty(document, &mut importer.account),
            Ok(Some(node)) => importer.import_units(&Unit {
                node: &node,
                line: document.line,
                through: document.through,
            })?,
        }
    }
    importer.account.settle();
    Ok(importer.account)
}

/// An object and the lines that it takes.
struct Unit<'a> {
    node: &'a Node,
    line: u32,
    through: u32,
}

/// A document in which nothing stands: its lines one by one.
fn empty(document: &Document, account: &mut Account) {
    for (line, text) in (document.line..).zip(document.text.lines()) {
        let kind = match text.trim() {
            "" => Kind::Blank,
            text if text.starts_with('#') => Kind::Comment,
            _ => Kind::Frame,
        };
        account.push(Entry::new(kind, line, line, text.trim()));
    }
}

/// What the objects of a file are read with and into.
struct Importer<'a> {
    asked: &'a Asked,
    names: &'a mut Names,
    account: Account,
}

impl Importer<'_> {
    /// An object, or all objects of a list of them, as `kubectl get -o yaml` writes it.
    fn import_units(&mut self, unit: &Unit) -> Result<(), Undecided> {
        let kind = unit
            .node
            .get("kind")
            .and_then(Node::text)
            .unwrap_or_default();
        if !matches!(kind, "List" | "CronJobList") {
            return self.import_unit(unit);
        }
        self.account
            .push(Entry::new(Kind::Frame, unit.line, unit.through, kind));
        let items = unit.node.get("items").map_or(&[][..], Node::items);
        for (i, item) in items.iter().enumerate() {
            let through = items.get(i + 1).map_or(unit.through, |next| {
                next.line.saturating_sub(1).max(item.line)
            });
            self.import_unit(&Unit {
                node: item,
                line: item.line,
                through,
            })?;
        }
        Ok(())
    }

    fn import_unit(&mut self, unit: &Unit) -> Result<(), Undecided> {
        let text = |path: &[&str]| unit.node.at(path).and_then(Node::text).unwrap_or_default();
        let (version, kind) = (text(&["apiVersion"]), text(&["kind"]));
        let name = match (
            text(&["metadata", "namespace"]),
            text(&["metadata", "name"]),
        ) {
            ("", name) => name.to_owned(),
            (namespace, name) => format!("{namespace}/{name}"),
        };
        let shown = format!("{kind} {name}");
        let entry = |kind| Entry::new(kind, unit.line, unit.through, shown.trim());
        if kind != "CronJob" || !VERSIONS.contains(&version) {
            let (why, remedy) = no_cronjob(version, kind);
            self.account
                .push(entry(Kind::NotCarriedOver).because(why, remedy));
            return Ok(());
        }
        let cronjob = CronJob {
            node: unit.node,
            file: &self.account.file,
            line: unit.line,
            asked: self.asked,
        };
        match cronjob.draft(self.names) {
            Ok((draft, read)) => self
                .account
                .push_job(entry(Kind::Job).reading_all(read), draft),
            Err(misses) => self.account.push_missed(entry, misses)?,
        }
        Ok(())
    }
}

/// Why an object is none that fires.
fn no_cronjob(version: &str, kind: &str) -> (String, &'static str) {
    match kind {
        "" => (
            "it has no `kind`: a patch, or a file of another program".to_owned(),
            "import what `kubectl kustomize` or `helm template` makes of it",
        ),
        "CronJob" => (
            format!("CronJobs of `{version}` are not known"),
            "write it as `apiVersion: batch/v1`",
        ),
        "Kustomization" => (
            "it makes objects of other files, and is none".to_owned(),
            "import what `kubectl kustomize DIR` prints",
        ),
        kind if kind.ends_with("CronJob") || kind.ends_with("CronWorkflow") => (
            format!("`{kind}` of `{version}` is no CronJob of Kubernetes itself"),
            "write it as a CronJob of batch/v1, its zone as `timeZone`, and import that",
        ),
        kind => (format!("a {kind} fires nothing"), ""),
    }
}

/// Whether a placeholder of Helm stands where the object itself is described; in the command line
/// of a container the same signs may be meant for its program.
fn is_of_template(node: &Node) -> bool {
    let mut found = false;
    node.visit("", &mut |field, text| {
        found |= text.contains("{{") && !matches!(field, "command" | "args" | "value" | "data");
    });
    let kind = node.get("kind").and_then(Node::text);
    found && matches!(kind, Some("CronJob" | "List" | "CronJobList") | None)
}
