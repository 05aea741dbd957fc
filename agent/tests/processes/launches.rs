//! What an attempt finds when it begins, and what becomes of one that cannot.

use std::fs;
use std::os::unix::fs::MetadataExt;

use nix::sys::signal::Signal;
use protocol::attempt::Exit;
use protocol::supervisor::SpawnFault;

use crate::harness::{Home, Mounted, is_possible, launch_with, wait_for};

#[test]
fn an_attempt_runs_as_the_user_it_names_and_as_nothing_more() {
    if !is_possible("another user", true, &[]) {
        return;
    }
    let home = Home::new();
    home.allow(0o711);
    let _supervisor = home.start();
    let mut agent = home.connect();
    let script = "id; echo home=$HOME user=$USER logname=$LOGNAME shell=$SHELL; umask; pwd; \
                  touch made && stat -c 'made=%U' made; \
                  cat ../../lock ../../socket 2>&1; ls ../../trash 2>&1; \
                  ls .. ../.. 2>&1; grep ^Cap /proc/self/status; \
                  cat /proc/self/oom_score_adj; nice; ulimit -c; \
                  (exec 3<>/dev/tty) 2>/dev/null || echo no terminal";
    agent.send(&launch_with(&home, 1, script, |l| {
        l.user = Some("nobody".to_owned());
    }));
    let end = agent.ended(1);
    assert_eq!(end.exit, Some(Exit::Code(0)), "{:?}", end.spawn_error);
    let output = home.output_of(1);
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    let homes = nobody.dir.display();
    let shell = nobody.shell.display();
    for expected in [
        &format!("uid={}(nobody)", nobody.uid),
        "made=nobody",
        &format!("home={homes} user=nobody logname=nobody shell={shell}"),
        "0022",
        "no terminal",
        "\n200\n0\n0\n",
    ] {
        assert!(output.contains(expected), "{expected:?}: {output}");
    }
    assert!(!output.contains("(root)"), "{output}");
    let capabilities = output.lines().filter(|line| line.starts_with("Cap"));
    for line in capabilities {
        assert!(line.ends_with("\t0000000000000000"), "{line}");
    }
    let denied = output.matches("Permission denied").count();
    assert_eq!(denied, 5, "{output}");
}

#[test]
fn a_user_that_this_host_does_not_have_is_told_with_host_and_remedy() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    agent.send(&launch_with(&home, 1, "true", |l| {
        l.user = Some("no-such-user".to_owned());
    }));
    let end = agent.ended(1);
    assert_eq!((end.exit, end.spawn_fault), (None, SpawnFault::Host));
    let host = nix::sys::utsname::uname().unwrap();
    let why = end.spawn_error.unwrap();
    for expected in [
        "`no-such-user`",
        &host.nodename().to_string_lossy(),
        "run.user",
    ] {
        assert!(why.contains(expected), "{expected}: {why}");
    }
}

#[test]
fn a_user_that_was_changed_a_moment_ago_is_seen_as_it_is_now() {
    if !is_possible("users of its own", true, &[]) {
        return;
    }
    let home = Home::new();
    home.allow(0o711);
    let write = |uid: u32, member: &str| {
        let root = "root:x:0:0::/root:/bin/sh";
        let users = format!("{root}\nbatch:x:{uid}:4100::/nowhere:/bin/false\n");
        fs::write(home.path().join("passwd"), users).unwrap();
        let groups = format!("root:x:0:\nbatch:x:4100:\nledger:x:4200:{member}\n");
        fs::write(home.path().join("group"), groups).unwrap();
    };
    write(4001, "");
    let _supervisor = home.start_where(Mounted::Users);
    let mut agent = home.connect();
    let passwd = home.path().join("passwd");
    wait_for("what is found to be remembered", || {
        let changed = fs::metadata(&passwd).unwrap().modified().unwrap();
        changed.elapsed().is_ok_and(|age| age.as_millis() > 200)
    });
    // Written in place and at once: nothing but the files themselves tells of it.
    for (token, uid, member, expected) in [
        (1, 4001, "", "4001 4100\n"),
        (2, 4001, "", "4001 4100\n"),
        (3, 4002, "", "4002 4100\n"),
        (4, 4002, "batch", "4002 4100 4200\n"),
        (5, 4002, "", "4002 4100\n"),
    ] {
        if token > 2 {
            write(uid, member);
        }
        agent.send(&launch_with(&home, token, "echo $(id -u) $(id -G)", |l| {
            l.user = Some("batch".to_owned());
        }));
        let end = agent.ended(token);
        assert_eq!(end.exit, Some(Exit::Code(0)), "{:?}", end.spawn_error);
        assert_eq!(home.output_of(token), expected, "attempt {token}");
    }
}

#[test]
fn a_working_directory_serves_again_only_as_it_was_made_and_for_the_same_user() {
    if !is_possible("another user", true, &[]) {
        return;
    }
    let home = Home::new();
    home.allow(0o711);
    let supervisor = home.start();
    let mut agent = home.connect();
    let spare = |token: i64| home.directory().join(format!("spare/{token}"));
    let mut run = |token: i64, user: &str, script: &str| {
        let report = format!("echo $(stat -c '%i %U %a' .) $(ls -A); {script}");
        agent.send(&launch_with(&home, token, &report, |l| {
            l.user = Some(user.to_owned());
        }));
        let end = agent.ended(token);
        assert_eq!(end.exit, Some(Exit::Code(0)), "{:?}", end.spawn_error);
        home.output_of(token)
    };
    let first = run(1, "nobody", "");
    wait_for("the directory to be put aside", || spare(1).exists());
    let inode = fs::metadata(spare(1)).unwrap().ino();
    assert_eq!(first, format!("{inode} nobody 700\n"));
    let roots = run(2, "root", "");
    assert!(roots.ends_with(" root 700\n"), "{roots}");
    assert_ne!(roots, format!("{inode} root 700\n"));
    let second = run(3, "nobody", "touch left");
    assert_eq!(second, first, "it is the same one");
    assert!(!spare(1).exists());
    wait_for("the other to be put aside", || spare(2).exists());
    let third = run(4, "nobody", "chmod 755 .");
    assert!(third.ends_with(" nobody 700\n"), "{third}");
    wait_for("what is changed to go", || {
        !["work/3", "work/4"]
            .iter()
            .any(|path| home.directory().join(path).exists())
    });
    assert!(!spare(3).exists() && !spare(4).exists());

    supervisor.signal(Signal::SIGKILL);
    supervisor.wait();
    assert!(spare(2).exists());
    let supervisor = home.start();
    let _agent = home.connect();
    let is_empty =
        |name: &str| fs::read_dir(home.directory().join(name)).map_or(0, Iterator::count) == 0;
    wait_for("what a dead supervisor had put aside to go", || {
        is_empty("spare") && is_empty("trash")
    });
    supervisor.signal(Signal::SIGTERM);
    assert!(supervisor.wait());
}

#[test]
fn a_user_that_cannot_reach_its_working_directory_is_told() {
    if !is_possible("another user", true, &[]) {
        return;
    }
    let home = Home::new();
    home.allow(0o700);
    let _supervisor = home.start();
    let mut agent = home.connect();
    agent.send(&launch_with(&home, 1, "true", |l| {
        l.user = Some("nobody".to_owned());
    }));
    let end = agent.ended(1);
    assert_eq!((end.exit, end.spawn_fault), (None, SpawnFault::Host));
    let why = end.spawn_error.unwrap();
    assert!(why.contains("work/1") && why.contains("`nobody`"), "{why}");
}

#[test]
fn a_switched_user_dies_with_the_supervisor_too() {
    if !is_possible("another user", true, &[]) {
        return;
    }
    let home = Home::new();
    home.allow(0o711);
    let supervisor = home.start();
    let mut agent = home.connect();
    agent.send(&launch_with(
        &home,
        1,
        "echo pid=$$; exec sleep 1000",
        |l| {
            l.user = Some("nobody".to_owned());
        },
    ));
    wait_for("the process", || home.output_of(1).contains("pid="));
    let pid = home.pid_in_output(1);
    supervisor.signal(Signal::SIGKILL);
    supervisor.wait();
    wait_for("the process to die", || !crate::harness::is_alive(pid));
}

#[test]
fn a_program_that_cannot_begin_is_told_in_words_that_help() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    let script = |name: &str, text: &str| {
        let path = home.path().join(name);
        fs::write(&path, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).unwrap();
        path.display().to_string()
    };
    let plain = home.path().join("plain");
    fs::write(&plain, "x").unwrap();
    for (token, program, expected) in [
        (1, "/no/such/program".to_owned(), "No such file"),
        (2, "no-such-program".to_owned(), "No such file"),
        (3, script("a", "#!/no/such/interpreter\n"), "interpreter"),
        (4, script("b", "echo never a shell\n"), "neither a binary"),
        (5, plain.display().to_string(), "Permission denied"),
        (6, "/bin/tr\0ue".to_owned(), "NUL"),
    ] {
        agent.send(&launch_with(&home, token, "", |l| {
            l.exec = vec![program.clone()];
        }));
        let end = agent.ended(token);
        assert_eq!((end.exit, end.started_at), (None, None), "{program}");
        assert_eq!(end.spawn_fault, SpawnFault::Launch, "{program}");
        let why = end.spawn_error.unwrap();
        assert!(why.contains(expected), "{program}: {why}");
    }
}
