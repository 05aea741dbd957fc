//! The canonical form in which a ledger keeps manifests.

use jobs::Manifest;

use crate::{LEAST, one};

#[test]
fn canonical_json_comes_back_and_is_judged_again() {
    let manifest = one(LEAST);
    let json = manifest.to_json();
    assert_eq!(
        json,
        r#"{"name":"demo/least","purpose":"Show the least.","owner":"demo","repeatable":{"safe":false},"schedule":{"cron":"30 23 * * *","timezone":"Asia/Shanghai"},"misfire":{"policy":"skip","after":"1m"},"overlap":"queue","serial":"relaxed","expected_duration":"40m","timeout":"15m","shards":1,"retry":{"at_most":3,"backoff":["1m","5m","30m"]},"takeover_after":"1m","priority":50,"begins":"active","run":{"exec":["/bin/true"]}}"#
    );
    assert_eq!(Manifest::from_json(&json).unwrap(), manifest);
    assert_eq!(serde_json::from_str::<Manifest>(&json).unwrap(), manifest);
    // JSON is YAML.
    assert_eq!(one(&json), manifest);
    for (from, to, expected) in [
        (
            "\"15m\"",
            "\"0s\"",
            "judging a stored manifest: timeout: 0s is outside 1s to 31d; write a duration from 1s to 31d",
        ),
        (
            "\"shards\":1",
            "\"shards\":null",
            "judging a stored manifest: shards: has no value; write one, or leave the field out",
        ),
        (
            "\"queue\"",
            "\"queue\",\"x\":1",
            "judging a stored manifest: x: there is no such field; leave it out; known here are name, renamed_from, purpose, owner, repeatable, schedule, misfire, catch_up, overlap, serial, previous, after, expected_duration, timeout, start_deadline, shards, retry, takeover_after, needs, priority, limits, params, begins, run",
        ),
        ("}}", "}", "reading a manifest's JSON"),
    ] {
        let stored = json.replacen(from, to, 1);
        assert_eq!(
            Manifest::from_json(&stored).unwrap_err().to_string(),
            expected
        );
    }
}
