use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proptest::prelude::*;
use protocol::WallMs;
use protocol::output::Record;

use super::*;
use crate::output::layout::{Part, is_open, read_parts};

const MIB: u64 = 1024 * 1024;

struct Bench {
    home: tempfile::TempDir,
    keeper: Option<Keeper>,
    records: Records,
    boot: i64,
}

impl Bench {
    fn new(bytes_max: u64) -> Bench {
        let home = tempfile::tempdir().unwrap();
        let mut bench = Bench {
            home,
            keeper: None,
            records: Records::default(),
            boot: 1_000,
        };
        bench.begin(bytes_max, false);
        bench
    }

    fn begin(&mut self, bytes_max: u64, resumed: bool) {
        let files = Files::new(self.directory(), "job: t/a\n".to_owned(), bytes_max);
        let mut keeper = Keeper::new(files, self.now());
        keeper.begin(resumed, self.now());
        self.keeper = Some(keeper);
    }

    fn directory(&self) -> std::path::PathBuf {
        self.home.path().join("output/1")
    }

    fn now(&self) -> Moment {
        Moment {
            boot: BootMs(self.boot),
            stamp: Stamp::from_wall(WallMs(self.boot)),
        }
    }

    fn keeper(&mut self) -> &mut Keeper {
        self.keeper.as_mut().unwrap()
    }

    fn takes(&mut self, stream: Stream, bytes: &[u8]) {
        let now = self.now();
        let keeper = self.keeper.as_mut().unwrap();
        keeper.take(stream, bytes, 64 * 1024, &mut self.records, now);
    }

    fn passes(&mut self, ms: i64) {
        self.boot += ms;
        let now = self.now();
        let keeper = self.keeper.as_mut().unwrap();
        keeper.tick(&mut self.records, now);
    }

    fn ends(&mut self) {
        let now = self.now();
        let keeper = self.keeper.take().unwrap();
        self.keeper = keeper.end(None, &mut self.records, now);
    }

    fn says_last_words_after(&mut self, ms: i64) {
        self.boot += ms;
        let now = self.now();
        let keeper = self.keeper.take().unwrap();
        self.keeper = keeper.say_last_words(now);
    }

    /// Something is kept, and then the disk is full.
    fn runs_out_of_room(&mut self) {
        self.takes(Stream::Stdout, b"before\n");
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        self.keeper().files.replace_file(full.unwrap());
    }

    fn has_room_again(&mut self) {
        let head = Part::HEAD.path(&self.directory());
        let writable = fs::OpenOptions::new().write(true).open(head).unwrap();
        self.keeper().files.replace_file(writable);
    }

    /// All records of all files, each as its stream and content, and parts marked by `+`.
    fn lines(&self) -> Vec<String> {
        let shown = |record: Record<'_>| {
            let more = if record.partial { "+" } else { "" };
            let content = String::from_utf8_lossy(record.content).into_owned();
            format!("{}{more} {content}", record.stream.as_str())
        };
        let records = records(&self.directory());
        let lines = records.split(|&byte| byte == b'\n');
        lines.filter_map(Record::parse).map(shown).collect()
    }

    fn bytes_on_disk(&self) -> u64 {
        let parts = read_parts(&self.directory()).unwrap();
        let length = |part: Part| fs::metadata(part.path(&self.directory())).unwrap().len();
        parts.into_iter().map(length).sum()
    }
}

fn records(directory: &Path) -> Vec<u8> {
    let parts = read_parts(directory).unwrap();
    let read = |part: Part| fs::read(part.path(directory)).unwrap();
    parts.into_iter().flat_map(read).collect()
}

fn raw(records: &[u8], of: Stream) -> Vec<u8> {
    let lines = records
        .split(|&byte| byte == b'\n')
        .filter_map(Record::parse);
    let lines = lines.filter(|record| record.stream == of);
    lines.flat_map(|record| record.raw().concat()).collect()
}

#[test]
fn lines_are_records_and_what_is_begun_waits_a_moment() {
    let mut bench = Bench::new(MIB);
    assert!(is_open(&bench.directory()).unwrap());
    bench.takes(Stream::Stdout, b"one\ntw");
    bench.takes(Stream::Stderr, b"oops\n");
    assert_eq!(bench.lines(), ["stdout one", "stderr oops"]);
    bench.takes(Stream::Stdout, b"o\nName: ");
    assert!(bench.keeper().is_restless());
    bench.passes(LINE_WAIT.0);
    assert!(!bench.keeper().is_restless());
    bench.takes(Stream::Stdout, b"x");
    bench.ends();
    assert_eq!(
        bench.lines(),
        [
            "stdout one",
            "stderr oops",
            "stdout two",
            "stdout+ Name: ",
            "stdout+ x",
            "matins the end of the output: 20 bytes, 3 lines",
        ]
    );
    assert!(!is_open(&bench.directory()).unwrap());
    let about = fs::read_to_string(bench.directory().join("about")).unwrap();
    assert_eq!(about, "job: t/a\n");
}

#[test]
fn a_long_output_keeps_its_first_and_its_last_and_says_how_much_is_missing() {
    let mut bench = Bench::new(MIB);
    let mut all = Vec::new();
    for n in 0..60_000 {
        let line = format!("{n} {}\n", "x".repeat(n % 100)).into_bytes();
        bench.takes(Stream::Stdout, &line);
        all.extend_from_slice(&line);
        if n % 100 == 0 {
            // Slower than what is kept turns over.
            bench.boot += 100;
        }
    }
    bench.ends();
    assert!(bench.bytes_on_disk() <= MIB, "{}", bench.bytes_on_disk());
    assert!(bench.bytes_on_disk() > MIB / 2);
    let directory = bench.directory();
    let head = raw(
        &fs::read(Part::HEAD.path(&directory)).unwrap(),
        Stream::Stdout,
    );
    assert!(all.starts_with(&head) && head.len() as u64 > MIB / 8);
    let parts = read_parts(&directory).unwrap();
    let tails: Vec<u8> = parts[1..]
        .iter()
        .flat_map(|part| fs::read(part.path(&directory)).unwrap())
        .collect();
    let tail = raw(&tails, Stream::Stdout);
    assert!(all.ends_with(&tail) && tail.len() as u64 > MIB / 4);
    // The marks at both sides of the gap tell what lay between them.
    let marks: Vec<Amount> = bench
        .lines()
        .iter()
        .filter_map(|line| line.strip_prefix("matins "))
        .filter_map(|mark| match Mark::parse(mark.as_bytes()) {
            Mark::At(amount) => Some(amount),
            _ => None,
        })
        .collect();
    let gap = marks[1].less(marks[0]);
    assert_eq!(gap.bytes as usize, all.len() - head.len() - tail.len());
    assert!(gap.lines > 1_000);
}

#[test]
fn what_comes_too_fast_is_dropped_and_counted_but_for_its_newest() {
    let mut bench = Bench::new(MIB);
    let mut all = Vec::new();
    let mut n = 0;
    let mut print = |bench: &mut Bench, times: usize| {
        for _ in 0..times {
            let piece = (n..n + 2_000)
                .map(|k| format!("{k}\n"))
                .collect::<Vec<_>>()
                .concat();
            n += 2_000;
            bench.takes(Stream::Stdout, piece.as_bytes());
            all.extend_from_slice(piece.as_bytes());
        }
    };
    print(&mut bench, 100);
    assert!(bench.keeper().is_bursting());
    assert!(bench.keeper().is_restless());
    // Each second has its newest.
    bench.passes(WINDOW.0);
    assert!(!bench.keeper().is_bursting());
    print(&mut bench, 100);
    assert!(bench.keeper().is_bursting());
    bench.ends();
    assert!(bench.bytes_on_disk() <= MIB);
    let lines = bench.lines();
    assert!(
        lines.iter().any(|line| line.contains(TOO_FAST)),
        "{}",
        lines.len()
    );
    assert_eq!(lines[lines.len() - 2], "stdout 399999");
    let end = format!(
        "matins the end of the output: {} bytes, 400000 lines",
        all.len()
    );
    assert_eq!(lines[lines.len() - 1], end);
}

#[test]
fn a_disk_that_takes_nothing_costs_output_and_not_the_job() {
    let mut bench = Bench::new(MIB);
    bench.runs_out_of_room();
    bench.takes(Stream::Stdout, b"lost\n");
    bench.takes(Stream::Stdout, b"lost too\n");
    assert!(bench.keeper().trouble().is_some());
    assert!(bench.keeper().is_restless());
    bench.has_room_again();
    bench.passes(RETRY.0 - 1);
    assert!(bench.keeper().trouble().is_some(), "not before its time");
    bench.passes(1);
    assert_eq!(bench.keeper().trouble(), None);
    bench.takes(Stream::Stdout, b"after\n");
    bench.ends();
    let lines = bench.lines();
    assert_eq!(lines[0], "stdout before");
    assert!(lines[1].starts_with("matins dropped: 14 bytes, 2 lines: the disk did not"));
    assert_eq!(
        lines[2..],
        [
            "stdout after",
            "matins the end of the output: 27 bytes, 4 lines"
        ]
    );
}

#[test]
fn what_was_lost_at_the_end_is_said_when_there_is_room() {
    let mut bench = Bench::new(MIB);
    bench.runs_out_of_room();
    bench.takes(Stream::Stdout, b"lost\n");
    bench.ends();
    assert!(is_open(&bench.directory()).unwrap(), "more is to come");
    bench.says_last_words_after(RETRY.0);
    bench.has_room_again();
    bench.says_last_words_after(RETRY.0 - 1);
    bench.says_last_words_after(1);
    assert!(bench.keeper.is_none());
    assert!(!is_open(&bench.directory()).unwrap());
    let lines = bench.lines();
    assert!(lines[1].starts_with("matins dropped: 5 bytes, 1 lines: the disk did not"));
    assert_eq!(
        lines[2..],
        ["matins the end of the output: 12 bytes, 2 lines"]
    );
}

#[test]
fn an_output_that_cannot_be_written_by_itself_is_no_trouble_of_the_host() {
    let mut bench = Bench::new(MIB);
    bench.takes(Stream::Stdout, b"before\n");
    let head = Part::HEAD.path(&bench.directory());
    let read_only = fs::File::open(&head).unwrap();
    bench.keeper().files.replace_file(read_only);
    bench.takes(Stream::Stdout, b"lost\n");
    assert!(bench.keeper().unwritable.is_some());
    assert_eq!(bench.keeper().trouble(), None);
    assert!(bench.keeper().is_restless(), "it is tried again");
}

#[test]
fn files_that_are_removed_are_made_again() {
    let mut bench = Bench::new(MIB);
    bench.takes(Stream::Stdout, b"lost\n");
    fs::remove_dir_all(bench.home.path().join("output")).unwrap();
    bench.boot += WINDOW.0;
    bench.takes(Stream::Stdout, b"kept\n");
    bench.ends();
    assert_eq!(
        bench.lines(),
        [
            "matins so far: 5 bytes, 1 lines",
            "stdout kept",
            "matins the end of the output: 10 bytes, 2 lines"
        ]
    );
    let mode = fs::metadata(bench.directory().join("about"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn the_next_log_writer_goes_on_where_the_last_one_died() {
    let mut bench = Bench::new(MIB);
    bench.takes(Stream::Stdout, b"one\ntwo\nhal");
    bench.keeper = None;
    bench.begin(MIB, true);
    bench.takes(Stream::Stdout, b"three\n");
    bench.ends();
    assert_eq!(
        bench.lines(),
        [
            "stdout one",
            "stdout two",
            "matins so far: 8 bytes, 2 lines",
            "matins the log writer was started anew here: a line may be torn or missing",
            "stdout three",
            "matins the end of the output: 14 bytes, 3 lines",
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 16,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever the bytes and however they come, they can be had again.
    #[test]
    fn every_byte_is_kept(pieces in prop::collection::vec(
        (any::<bool>(), prop::collection::vec(
            prop_oneof![3 => any::<u8>(), 1 => Just(b'\n')], 0..300), 1_usize..200), 1..20)
    ) {
        let mut bench = Bench::new(64 * MIB);
        let mut written = [Vec::new(), Vec::new()];
        for (is_stderr, piece, times) in &pieces {
            let stream = if *is_stderr { Stream::Stderr } else { Stream::Stdout };
            let bytes = piece.repeat(*times);
            bench.takes(stream, &bytes);
            written[index(stream)].extend_from_slice(&bytes);
        }
        bench.ends();
        let records = records(&bench.directory());
        for stream in [Stream::Stdout, Stream::Stderr] {
            prop_assert_eq!(&raw(&records, stream), &written[index(stream)]);
        }
        let longest = records.split(|&byte| byte == b'\n').map(<[u8]>::len).max();
        prop_assert!(longest.unwrap_or(0) <= HEADER_BYTES + CONTENT_BYTES_MAX);
    }
}
