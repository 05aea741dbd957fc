//! `matins dev`: a whole Matins of one's own, from a directory of manifests, in two seconds.
//!
//! Coordinator, agents and supervisors are processes of their own, as they are in earnest, so
//! that a person can kill any of them and see what happens. This process makes their identities,
//! starts them, starts again whichever dies, and tells what fires and how it ends.
//!
//! It has one thread that starts and ends processes. A second one speaks with the coordinator
//! and may wait for it as long as it likes.

mod children;
mod follow;
mod home;
mod story;

use std::path::Path;
use std::time::Duration;

use protocol::{RunId, WallMs};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::args::Dev;
use crate::client::DATA_DEFAULT;
use crate::clock;
use crate::commands::apply;
use crate::failure::Failure;
use crate::output::{print, talk};
use crate::text::count;
use children::Children;
use follow::{News, Up};
use home::Home;

/// A coordinator that has not answered by then is not going to.
const START_LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn dev(options: &Dev) -> Result<(), Failure> {
    let manifests = apply::read_all(std::slice::from_ref(&options.jobs), "started")?;
    let manifests = apply::in_order(manifests)?;
    let home = Home::open(&options.data, options.agents)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| start_failed(options, &error))?;
    let result = runtime.block_on(async {
        let mut stop = StopSignals::new().map_err(|error| start_failed(options, &error))?;
        let mut children = Children::start(&home, options)?;
        let news = follow::follow(&home, manifests);
        let end = attend(options, &home, &mut children, news, &mut stop).await;
        children.stop().await;
        end
    });
    // The follower may be in the middle of asking a coordinator that is gone.
    runtime.shutdown_background();
    result
}

/// Tells the story until it is to end.
async fn attend(
    options: &Dev,
    home: &Home,
    children: &mut Children,
    mut news: mpsc::Receiver<News>,
    stop: &mut StopSignals,
) -> Result<(), Failure> {
    let mut printer = Printer::new();
    let mut is_up = false;
    let start_limit = tokio::time::sleep(START_LIMIT);
    tokio::pin!(start_limit);
    let exit_after = async {
        match options.exit_after {
            Some(length) => tokio::time::sleep(Duration::from_millis(length.0 as u64)).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(exit_after);
    loop {
        tokio::select! {
            said = children.said() => printer.print(&said)?,
            message = news.recv() => match message {
                Some(News::Up(up)) => {
                    is_up = true;
                    print(&banner(options, home, &up))?;
                }
                Some(News::Line(line)) => printer.print(&line)?,
                Some(News::Failed(failure)) => return Err(failure),
                None => std::future::pending().await,
            },
            () = &mut start_limit, if !is_up => {
                return Err(children.never_came_up());
            }
            () = stop.recv() => {
                talk("ending everything");
                return Ok(());
            }
            () = &mut exit_after => return Ok(()),
        }
    }
}

fn banner(options: &Dev, home: &Home, up: &Up) -> String {
    let mut lines = vec![
        format!(
            "{} on {}, coordinator at {}",
            count(up.jobs as u64, "job"),
            count(u64::from(options.agents), "agent"),
            up.url
        ),
        if home.path() == Path::new(DATA_DEFAULT) {
            "ask with `matins get runs`".to_owned()
        } else {
            format!(
                "ask with MATINS_DATA={} matins get runs",
                home.path().display()
            )
        },
        format!("logs in {}", home.logs().display()),
        format!("times are {}; ^C ends everything", clock::local_zone()),
    ];
    for job in &up.left_over {
        lines.push(format!(
            "{job} is known from before and goes on, without a manifest in {}",
            options.jobs.display()
        ));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn start_failed(options: &Dev, error: &std::io::Error) -> Failure {
    Failure::of_error(
        format!("starting Matins on {}", options.data.display()),
        error,
        "see the limits of this machine on processes and files",
    )
}

/// Something that happened, for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) at: WallMs,
    /// To whom: a run as `job@fire-time`, or one of the processes.
    pub(crate) who: String,
    pub(crate) what: &'static str,
    pub(crate) detail: String,
    /// The run that has ended with this.
    pub(crate) ended: Option<RunId>,
}

/// Writes lines under each other, in columns that widen as they need to.
struct Printer {
    zone: chrono_tz::Tz,
    who_width: usize,
}

impl Printer {
    fn new() -> Printer {
        Printer {
            zone: clock::local_zone(),
            who_width: 0,
        }
    }

    fn print(&mut self, line: &Line) -> Result<(), Failure> {
        self.who_width = self.who_width.max(line.who.chars().count());
        let text = format!(
            "{}  {:<who_width$}  {:<9}  {}",
            clock::time_of_day(line.at, self.zone),
            line.who,
            line.what,
            line.detail,
            who_width = self.who_width
        );
        print(&format!("{}\n", text.trim_end()))
    }
}

struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl StopSignals {
    fn new() -> std::io::Result<StopSignals> {
        Ok(StopSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn recv(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}
