//! `matins logs`: what an attempt printed, byte for byte.

use protocol::api::RunDetail;

use crate::args::Logs;
use crate::commands::find_run;
use crate::failure::Failure;
use crate::output::print_bytes;
use crate::text::count;

pub(crate) fn logs(options: &Logs) -> Result<(), Failure> {
    let client = options.target.find()?;
    let detail = find_run(&client, &options.run)?;
    let shard = choose_shard(options, &detail)?;
    let path = format!("/api/v1/runs/{}/shards/{shard}/log", detail.run.run);
    let query: Vec<_> = options
        .token
        .iter()
        .map(|token| ("token", token.to_string()))
        .collect();
    client.stream(&path, &query, print_bytes)
}

fn choose_shard(options: &Logs, detail: &RunDetail) -> Result<u32, Failure> {
    if let Some(shard) = options.shard {
        return Ok(shard);
    }
    let what = || format!("choosing whose output of {} is meant", options.run);
    if let Some(token) = options.token {
        let of_token = detail
            .shard_list
            .iter()
            .find(|shard| shard.attempts.iter().any(|a| a.token == token));
        return of_token.map(|shard| shard.shard).ok_or_else(|| {
            Failure::bad_input(
                what(),
                format!("{token} is no attempt of it"),
                format!("look for its tokens with `matins describe {}`", options.run),
            )
        });
    }
    match detail.shard_list.as_slice() {
        [only] => Ok(only.shard),
        [] => Err(Failure::failed(
            what(),
            format!("it is {} and has no shards", detail.run.state),
            "nothing ran, so there is nothing to read",
        )),
        shards => Err(Failure::bad_input(
            what(),
            format!("it has {}", count(shards.len() as u64, "shard")),
            format!("name one with --shard, from 0 to {}", shards.len() - 1),
        )),
    }
}
