//! One CronJob, from the controller's words into Matins's.

use std::collections::BTreeMap;

use jobs::Dialect;
use serde_json::{Value as Json, json};

use super::super::draft::{
    Draft, RETRIES_MAX, SECONDS_MAX, Said, expected_duration_unsaid, literal, timeout_unsaid,
    user_unsaid, with_environment,
};
use super::super::names::{Names, of_source};
use super::super::tree::{Node, Value};
use super::super::{Asked, Misses, Undecided, judge_schedule};

/// What Kubernetes retries where nothing is said.
const BACKOFF_LIMIT: u64 = 6;

/// Fields with which nothing is lost.
const NO_MATTER: [&str; 22] = [
    "name",
    "image",
    "command",
    "args",
    "env",
    "envFrom",
    "workingDir",
    "resources",
    "imagePullPolicy",
    "restartPolicy",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "containers",
    "dnsPolicy",
    "schedulerName",
    "terminationGracePeriodSeconds",
    "backoffLimit",
    "activeDeadlineSeconds",
    "template",
    "ttlSecondsAfterFinished",
    "completionMode",
    "tty",
];

pub(super) struct CronJob<'a> {
    pub(super) node: &'a Node,
    pub(super) file: &'a str,
    pub(super) line: u32,
    pub(super) asked: &'a Asked,
}

/// The draft, and what was read for it.
pub(super) type Found = (Draft, Vec<(&'static str, Json)>);

impl CronJob<'_> {
    pub(super) fn draft(&self, names: &mut Names) -> Result<Found, Misses> {
        let text = |path: &[&str]| self.node.at(path).and_then(Node::text);
        let Some(written) = text(&["spec", "schedule"]) else {
            return Err(Misses::not_carried_over(
                "it has no schedule: a patch, such as kustomize puts over another file",
                "import what `kubectl kustomize DIR` prints",
            ));
        };
        let given = text(&["metadata", "name"])
            .ok_or_else(|| Misses::bad("it has no name", "write `metadata.name`"))?;
        let (schedule, timezone, mut decide) = self.schedule(written)?;
        let metadata = self.node.get("metadata").map_or(&[][..], Node::entries);
        if metadata.iter().filter(|(key, _)| key == "name").count() > 1 {
            decide.push(format!(
                "`metadata.name` stands there twice; the last, {given}, counts."
            ));
        }
        let was_off = text(&["spec", "suspend"]) == Some("true");
        let (exec, remark) = self.exec(&mut decide)?;
        let (limits, mut not_carried) = self.limits();
        not_carried.extend(self.beside());
        if !not_carried.is_empty() {
            decide.push(format!("Not carried over: {}.", not_carried.join(", ")));
        }
        let overlap = self.overlap()?;
        let misfire = self.misfire()?;
        let retry = self.retry()?;
        let timeout = self.timeout()?;
        let namespace = match (text(&["metadata", "namespace"]), &self.asked.namespace) {
            (Some(namespace), _) => of_source(namespace, &[namespace]),
            (None, Some(namespace)) => namespace.clone(),
            (None, None) => "default".to_owned(),
        };
        let name = of_source(given, &[given]);
        if names.has(&format!("{namespace}/{name}")) {
            return Err(Misses::bad(
                format!("{namespace}/{name} was imported already"),
                "keep one of the two",
            ));
        }
        let read = vec![
            ("schedule", json!(schedule)),
            ("timezone", json!(timezone.value)),
            ("suspend", json!(was_off)),
            ("not_carried_over", json!(not_carried)),
        ];
        let draft = Draft {
            name: names.take(&namespace, &name),
            source: format!("k8s {}", self.file),
            line: self.line,
            purpose: self.purpose(given),
            owner: self.asked.owner(None),
            cron: schedule,
            timezone,
            dialect: Dialect::Kubernetes,
            misfire,
            overlap,
            expected_duration: expected_duration_unsaid(),
            timeout,
            retry,
            limits,
            exec,
            exec_remark: remark,
            user_remark: user_unsaid(),
            decide,
            was_off,
            ..Draft::default()
        };
        Ok((draft, read))
    }

    /// Expression and zone. `TZ=` before the expression was a way to say it until Kubernetes 1.29.
    fn schedule(&self, written: &str) -> Result<(String, Said, Vec<String>), Misses> {
        let mut decide = Vec::new();
        let inner = written
            .trim()
            .strip_prefix("CRON_TZ=")
            .or_else(|| written.trim().strip_prefix("TZ="));
        let (schedule, timezone) = match inner.and_then(|text| text.split_once(' ')) {
            Some((zone, schedule)) => {
                decide.push("Its zone stood in the schedule as `TZ=`, which newer Kubernetes refuses or ignores.".to_owned());
                (
                    schedule.trim(),
                    Some((zone.to_owned(), "TZ= of the schedule")),
                )
            }
            None => (written.trim(), None),
        };
        let field = self.node.at(&["spec", "timeZone"]).and_then(Node::text);
        let timezone = field
            .map(|zone| (zone.to_owned(), "timeZone"))
            .or(timezone)
            .or_else(|| {
                Some((
                    self.asked.timezone.clone()?,
                    "--timezone: of the controller",
                ))
            });
        let Some((zone, why)) = timezone else {
            return Err(Misses::Undecided(Undecided::timezone(
                self.file,
                self.line,
                "without `timeZone` its hours are of the zone of kube-controller-manager, which \
                 is nearly always UTC",
            )));
        };
        judge_schedule(schedule, &zone, Dialect::Kubernetes)?;
        Ok((schedule.to_owned(), Said::new(zone, why), decide))
    }

    fn purpose(&self, given: &str) -> String {
        let annotations = self.node.at(&["metadata", "annotations"]);
        let described = ["kubernetes.io/description", "description"]
            .iter()
            .find_map(|name| annotations?.get(name)?.text());
        match described {
            Some(text) if !text.trim().is_empty() => super::super::account::cut(text.trim(), 400),
            _ => format!("Imported from the CronJob {given}"),
        }
    }

    fn overlap(&self) -> Result<Said, Misses> {
        let policy = self
            .node
            .at(&["spec", "concurrencyPolicy"])
            .and_then(Node::text);
        Ok(match policy {
            None | Some("") => Said::new("allow", "no concurrencyPolicy, which is Allow"),
            Some("Allow") => Said::new("allow", "concurrencyPolicy: Allow"),
            Some("Forbid") => Said::new("forbid", "concurrencyPolicy: Forbid"),
            Some("Replace") => Said::new("replace", "concurrencyPolicy: Replace"),
            Some(other) => {
                return Err(Misses::bad(
                    format!("`concurrencyPolicy: {other}` is none"),
                    "write Allow, Forbid or Replace",
                ));
            }
        })
    }

    /// A number of seconds, or none where the field is not there.
    fn number(&self, path: &[&str]) -> Result<Option<u64>, Misses> {
        let Some(text) = self.node.at(path).and_then(Node::text) else {
            return Ok(None);
        };
        let field = path.last().copied().unwrap_or_default();
        text.parse().map(Some).map_err(|_| {
            Misses::bad(
                format!("`{field}: {text}` is no whole number"),
                "write how many, without a unit",
            )
        })
    }

    /// The controller starts the newest instant missed, if it is no later than the deadline.
    fn misfire(&self) -> Result<Said, Misses> {
        Ok(match self.number(&["spec", "startingDeadlineSeconds"])? {
            None => Said::new(
                "{ policy: run_now, after: 60s }",
                "no startingDeadlineSeconds: the newest late one runs",
            ),
            Some(seconds) => {
                let within = seconds.clamp(1, SECONDS_MAX);
                let after = within.min(60);
                Said::new(
                    format!("{{ within: {within}s, after: {after}s }}"),
                    format!("startingDeadlineSeconds: {seconds}"),
                )
            }
        })
    }

    /// The controller waits 10 seconds, then twice as long each time.
    fn retry(&self) -> Result<Said, Misses> {
        let path = ["spec", "jobTemplate", "spec", "backoffLimit"];
        let said = self.number(&path)?;
        let limit = said.unwrap_or(BACKOFF_LIMIT);
        let at_most = limit.min(RETRIES_MAX);
        let waits = ["10s", "20s", "40s", "80s", "160s"];
        let value = match at_most {
            0 => "{ at_most: 0 }".to_owned(),
            n => format!(
                "{{ at_most: {n}, backoff: [{}] }}",
                waits[..n as usize].join(", ")
            ),
        };
        let mut why = match said {
            Some(limit) => format!("backoffLimit: {limit}"),
            None => format!("no backoffLimit, which is {BACKOFF_LIMIT}"),
        };
        if limit > RETRIES_MAX {
            why.push_str("; 5 is the most here");
        }
        Ok(Said::new(value, why))
    }

    fn timeout(&self) -> Result<Said, Misses> {
        let of_job = self.number(&["spec", "jobTemplate", "spec", "activeDeadlineSeconds"])?;
        let of_pod = self.number(&[
            "spec",
            "jobTemplate",
            "spec",
            "template",
            "spec",
            "activeDeadlineSeconds",
        ])?;
        Ok(match (of_pod, of_job) {
            (Some(pod), job) => {
                let seconds = job.map_or(pod, |job| job.min(pod));
                said_seconds(seconds, "activeDeadlineSeconds of the pod")
            }
            (None, Some(job)) => said_seconds(
                job,
                "activeDeadlineSeconds, there for all tries together, here for each",
            ),
            (None, None) => timeout_unsaid(),
        })
    }

    fn pod(&self) -> Option<&Node> {
        self.node
            .at(&["spec", "jobTemplate", "spec", "template", "spec"])
    }

    /// The first container, which is the job; Kubernetes has a job done when all are.
    fn container(&self) -> Result<&Node, Misses> {
        let containers = self.pod().and_then(|pod| pod.get("containers"));
        containers
            .and_then(|containers| containers.items().first())
            .ok_or_else(|| {
                Misses::bad(
                    "it has no container",
                    "write `spec.jobTemplate.spec.template.spec.containers`",
                )
            })
    }

    /// The command line and a remark to it.
    fn exec(&self, decide: &mut Vec<String>) -> Result<(Vec<String>, String), Misses> {
        let container = self.container()?;
        let image = container.get("image").and_then(Node::text).unwrap_or("?");
        let (variables, missing) = variables(container);
        let words = |field: &str| -> Result<Option<Vec<String>>, Misses> {
            let Some(node) = container.get(field) else {
                return Ok(None);
            };
            let words = texts(node, field)?;
            let words = words.into_iter().map(|word| expand(word, &variables));
            Ok(Some(words.collect()))
        };
        let command = words("command")?.filter(|command| !command.is_empty());
        let mut remark = String::new();
        let mut program = if let Some(command) = command {
            decide.push(format!(
                "It ran in the image {image}: see that the host has what it needs."
            ));
            command
        } else {
            decide.push(format!(
                "It ran what the image {image} starts by itself, which the CronJob does not name: \
                 put the program in its place (`docker inspect` shows Entrypoint and Cmd)."
            ));
            "no command in the CronJob: put the program here".clone_into(&mut remark);
            vec!["/PUT-HERE/the-entrypoint-of-the-image".to_owned()]
        };
        program.extend(words("args")?.unwrap_or_default());
        let mut exec = with_environment(&variables);
        if let Some(directory) = container.get("workingDir").and_then(Node::text) {
            let enter = "cd \"$0\" && exec \"$@\"";
            exec.extend(["/bin/sh".to_owned(), "-c".to_owned(), enter.to_owned()]);
            exec.push(literal(directory));
            "the shell only enters the directory".clone_into(&mut remark);
        }
        exec.extend(
            program
                .iter()
                .map(|word| literal(word.trim_end_matches('\n'))),
        );
        if !missing.is_empty() {
            decide.push(format!(
                "Variables that came from elsewhere are not set: {}.",
                missing.join(", ")
            ));
        }
        Ok((exec, remark))
    }

    /// The container's memory as a limit, and what else was limited.
    fn limits(&self) -> (Option<Said>, Vec<String>) {
        let Ok(container) = self.container() else {
            return (None, Vec::new());
        };
        let memory = container
            .at(&["resources", "limits", "memory"])
            .and_then(Node::text);
        let mut lost = Vec::new();
        let said = memory.and_then(|text| {
            let kib = bytes_of(text)?.div_ceil(1024);
            let fits = (4 * 1024..=16 << 30).contains(&kib);
            let size = if kib.is_multiple_of(1024) {
                format!("{}MiB", kib / 1024)
            } else {
                format!("{kib}KiB")
            };
            fits.then(|| {
                Said::new(
                    format!("{{ memory: {size} }}"),
                    format!("the container's limit, {text}"),
                )
            })
        });
        if let (Some(text), None) = (memory, &said) {
            lost.push(format!("resources.limits.memory {text}"));
        }
        for (group, name) in [
            ("limits", "cpu"),
            ("requests", "cpu"),
            ("requests", "memory"),
        ] {
            if let Some(text) = container
                .at(&["resources", group, name])
                .and_then(Node::text)
            {
                lost.push(format!("resources.{group}.{name} {text}"));
            }
        }
        (said, lost)
    }

    /// What stands beside what was read, by name.
    fn beside(&self) -> Vec<String> {
        let mut lost = Vec::new();
        let job = self.node.at(&["spec", "jobTemplate", "spec"]);
        for node in [job, self.pod(), self.container().ok()] {
            for (name, node) in node.map_or(&[][..], Node::entries) {
                let trivial = matches!(name.as_str(), "parallelism" | "completions")
                    && node.text() == Some("1");
                if NO_MATTER.contains(&name.as_str()) || trivial || node.is_null() {
                    continue;
                }
                let text = node.text().map(|text| format!(" {text}"));
                lost.push(format!("{name}{}", text.unwrap_or_default()));
            }
        }
        let containers = self.pod().and_then(|pod| pod.get("containers"));
        for other in containers.map_or(&[][..], Node::items).iter().skip(1) {
            let name = other.get("name").and_then(Node::text).unwrap_or("?");
            lost.push(format!("the container {name} beside it"));
        }
        lost
    }
}

fn said_seconds(seconds: u64, why: &str) -> Said {
    Said::new(format!("{}s", seconds.clamp(1, SECONDS_MAX)), why)
}

/// The arguments of a field that Kubernetes takes only as a list of texts.
fn texts<'a>(node: &'a Node, field: &str) -> Result<Vec<&'a str>, Misses> {
    let Value::List(items) = &node.value else {
        return Err(Misses::bad(
            format!("`{field}` is no list, and Kubernetes refuses it"),
            format!("write `{field}` as a list of texts"),
        ));
    };
    let text = |item: &'a Node| match item.text() {
        Some(text) if item.is_text() => Ok(text),
        Some(text) => Err(Misses::bad(
            format!("`{text}` in `{field}` is no text, and Kubernetes refuses it"),
            format!("write it in quotes: \"{text}\""),
        )),
        None => Err(Misses::bad(
            format!("a list or mapping stands in `{field}`, and Kubernetes refuses it"),
            format!("write `{field}` as a list of texts"),
        )),
    };
    items.iter().map(text).collect()
}

/// Variables with their values, in the order of their names, and those that come from elsewhere.
fn variables(container: &Node) -> (BTreeMap<String, String>, Vec<String>) {
    let mut known = BTreeMap::new();
    let mut missing = Vec::new();
    for variable in container.get("env").map_or(&[][..], Node::items) {
        let Some(name) = variable.get("name").and_then(Node::text) else {
            continue;
        };
        // What `env` would take for an option cannot be handed on by it.
        let fits = !name.is_empty() && !name.starts_with('-') && !name.contains('=');
        match variable.get("value").map(Node::text) {
            Some(Some(value)) if fits => {
                let value = expand(value, &known);
                known.insert(name.to_owned(), value);
            }
            None if variable.get("valueFrom").is_none() && fits => {
                known.insert(name.to_owned(), String::new());
            }
            _ => missing.push(format!("{name}{}", from(variable))),
        }
    }
    for group in container.get("envFrom").map_or(&[][..], Node::items) {
        for (kind, named) in group.entries() {
            if let Some(name) = named.get("name").and_then(Node::text) {
                missing.push(format!(
                    "all of the {} {name}",
                    kind.trim_end_matches("Ref")
                ));
            }
        }
    }
    (known, missing)
}

/// ` (secretKeyRef mysql-backup, AWS_ACCESS_KEY)`.
fn from(variable: &Node) -> String {
    let source = variable
        .get("valueFrom")
        .and_then(|from| from.entries().first());
    let Some((kind, node)) = source else {
        return String::new();
    };
    let fields: Vec<&str> = ["name", "key", "fieldPath", "resource"]
        .iter()
        .filter_map(|field| node.get(field)?.text())
        .collect();
    format!(" ({kind} {})", fields.join(", "))
}

/// `$(NAME)` as Kubernetes fills it: what is not known stays, `$$` is one `$`.
fn expand(text: &str, known: &BTreeMap<String, String>) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        filled.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let name = rest
            .strip_prefix('(')
            .and_then(|inner| inner.split_once(')'));
        if let Some(after) = rest.strip_prefix('$') {
            filled.push('$');
            rest = after;
        } else if let Some((name, after)) = name {
            if let Some(value) = known.get(name) {
                filled.push_str(value);
            } else {
                filled.extend(["$(", name, ")"]);
            }
            rest = after;
        } else {
            filled.push('$');
        }
    }
    filled.push_str(rest);
    filled
}

/// A quantity of memory of Kubernetes, in bytes.
fn bytes_of(quantity: &str) -> Option<u64> {
    let digits = quantity.len()
        - quantity
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .len();
    let (number, unit) = quantity.split_at(digits);
    let unit: u64 = match unit {
        "" => 1,
        "k" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_as_kubernetes_fills_them() {
        let known: BTreeMap<String, String> = [("A".to_owned(), "1".to_owned())].into();
        for (text, expected) in [
            ("$(A)$(B)", "1$(B)"),
            ("$$(A)", "$(A)"),
            ("$A ${A} $", "$A ${A} $"),
            ("echo $(date)", "echo $(date)"),
            ("$(", "$("),
            ("$$$(A)", "$1"),
        ] {
            assert_eq!(expand(text, &known), expected, "{text}");
        }
    }

    #[test]
    fn memory_in_bytes() {
        for (text, expected) in [
            ("256Mi", Some(256 << 20)),
            ("1Gi", Some(1 << 30)),
            ("128M", Some(128_000_000)),
            ("1000", Some(1000)),
            ("1.5Gi", None),
            ("99999999999Ti", None),
            ("", None),
        ] {
            assert_eq!(bytes_of(text), expected, "{text}");
        }
    }
}
