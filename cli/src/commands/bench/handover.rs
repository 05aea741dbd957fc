//! How long no lease is told to any agent while the lead is given away as planned: asked for, and by
//! the end of the leader's process.

use std::thread;
use std::time::Duration;

use ledger::LeaseTimes;
use protocol::api::{ClusterAnswer, TransferRequest};
use protocol::{DurationMs, WallMs};
use serde_json::json;

use super::stream::{Found, Stream};
use super::{longest_gap, percentile, print_figures, show_ms};
use crate::args::{BenchRounds, Text};
use crate::clock;
use crate::failure::Failure;
use crate::output::{print_json, talk};

/// What a round takes at most on most machines, with the start of what was ended.
const ROUND_S: u32 = 8;

/// The gap is looked for from this long before to this long after; and, for comparison, in as much
/// time before that.
const BEFORE: DurationMs = DurationMs(50);
const AFTER: DurationMs = DurationMs(1_500);

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// `matins cluster transfer`.
    Asked,
    /// SIGTERM to the leader.
    Ended,
}

pub(super) fn handover(options: &BenchRounds) -> Result<(), Failure> {
    let rounds = options.rounds;
    let mut stream = Stream::begin(options, rounds * ROUND_S)?;
    talk(&format!("handing the lead over {rounds} times"));
    let mut handed = Vec::new();
    for round in 0..rounds {
        let how = if round % 2 == 0 {
            How::Asked
        } else {
            How::Ended
        };
        handed.push((how, hand_over(&mut stream, how)?));
    }
    let (found, site) = stream.end()?;
    let silences = match &found.watch {
        Some(watch) => handed
            .iter()
            .filter_map(|(_, at)| watch.longest_silence(*at - BEFORE, *at + AFTER))
            .collect(),
        None => Vec::new(),
    };
    drop(site);
    report(options, &handed, &found, silences)
}

/// When it began.
fn hand_over(stream: &mut Stream, how: How) -> Result<WallMs, Failure> {
    let leader = stream.wait_until_settled()?;
    let site = &mut stream.site;
    // What the last round stirred up is over, and is not taken for what is usual.
    wait(AFTER + AFTER);
    let begun = clock::now();
    match how {
        How::Asked => {
            let to = TransferRequest::default();
            let client = site.client(leader)?;
            client.post::<ClusterAnswer>("/api/v1/cluster/transfer", &to)?;
        }
        How::Ended => site.end_machine(leader),
    }
    site.wait_for_leader()?;
    wait(AFTER);
    if how == How::Ended {
        site.start_again(leader)?;
    }
    Ok(begun)
}

fn wait(time: DurationMs) {
    thread::sleep(Duration::from_millis(time.0.unsigned_abs()));
}

fn report(
    options: &BenchRounds,
    handed: &[(How, WallMs)],
    found: &Found,
    mut silences: Vec<i64>,
) -> Result<(), Failure> {
    let started = |lease: &LeaseTimes| lease.started_at;
    let mut starts: Vec<WallMs> = found.leases.iter().filter_map(started).collect();
    starts.sort_unstable();
    let gap = |at: WallMs| longest_gap(&starts, at - BEFORE, at + AFTER);
    let gaps = |of: How| -> Vec<i64> {
        let of = handed.iter().filter(|(how, _)| *how == of);
        of.filter_map(|(_, at)| gap(*at)).collect()
    };
    let (mut asked, mut ended) = (gaps(How::Asked), gaps(How::Ended));
    let mut all: Vec<i64> = asked.iter().chain(&ended).copied().collect();
    let mut without: Vec<i64> = handed
        .iter()
        .filter_map(|(_, at)| longest_gap(&starts, *at - BEFORE - AFTER, *at - BEFORE))
        .collect();
    let [p50, max] = [50, 100].map(|percent| percentile(&mut all, percent));
    let [address_p50, address_max] = [50, 100].map(|percent| percentile(&mut silences, percent));
    let asked_max = percentile(&mut asked, 100);
    let ended_max = percentile(&mut ended, 100);
    let [without_p50, without_max] = [50, 100].map(|percent| percentile(&mut without, percent));
    match options.site.output {
        Text::Json => print_json(&json!({
            "gap_max_ms": max,
            "address_gap_max_ms": address_max,
            "address_why": found.no_address,
            "address_gap_p50_ms": address_p50,
            "address_gaps_ms": silences,
            "gap_p50_ms": p50,
            "transfer_gaps_ms": asked,
            "sigterm_gaps_ms": ended,
            "usual_gap_p50_ms": without_p50,
            "usual_gap_max_ms": without_max,
            "lost": found.lost,
            "duplicates": found.duplicates,
            "acknowledged": found.acknowledged,
            "leases": found.leases.len(),
            "timers": options.timers.as_str(),
            "rounds": handed.len(),
        })),
        Text::Text => print_figures(&[
            ("times the lead was handed over", handed.len().to_string()),
            ("longest time without a lease, median", show_ms(p50)),
            ("the longest, asked for", show_ms(asked_max)),
            ("the longest, by SIGTERM", show_ms(ended_max)),
            (
                "nobody answers on the address for, median",
                show_ms(address_p50),
            ),
            ("the longest", show_ms(address_max)),
            ("without any hand-over, median", show_ms(without_p50)),
            ("the longest", show_ms(without_max)),
            (
                "runs acknowledged to a client, and lost",
                format!("{}, {}", found.acknowledged, found.lost),
            ),
            (
                "leases, and shards started twice",
                format!("{}, {}", found.leases.len(), found.duplicates),
            ),
        ]),
    }
}
