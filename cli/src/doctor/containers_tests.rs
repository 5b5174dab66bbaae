use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;

use proptest::prelude::*;

use super::*;

fn listed(name: &str, state: &str) -> Listed {
    let (id, names) = ("abc".to_owned(), vec![format!("/{name}")]);
    Listed { id, names, labels: HashMap::new(), state: state.into(), status: "since a while".into() }
}

#[test]
fn what_is_a_server_of_k3d() {
    for (name, is_server) in [
        ("k3d-mycluster-server-0", true),
        ("k3d-mycluster-agent-0", false),
        ("k3d-mycluster-serverlb", false),
        ("postgres", false),
    ] {
        assert_eq!(listed(name, "running").is_server(), is_server, "{name}");
    }
    let labelled = |role: &str| Listed {
        labels: HashMap::from([("k3d.role".to_owned(), role.to_owned())]),
        ..listed("k3d-a-server-0", "running")
    };
    assert!(labelled("server").is_server() && !labelled("loadbalancer").is_server());
}

#[test]
fn how_bad_each_state_is() {
    for (state, restarts, want) in [
        ("running", 0, None),
        ("running", 2, None),
        ("running", 3, Some(Severity::Warn)),
        ("restarting", 7, Some(Severity::Fail)),
        ("exited", 0, Some(Severity::Warn)),
        ("created", 0, Some(Severity::Warn)),
    ] {
        let finding = listed("k3d-a-server-0", state).judge(restarts, true);
        let quiet = listed("k3d-a-server-0", state).judge(restarts, false);
        assert_eq!(quiet.is_some(), state == "restarting", "{state}: nothing else is amiss");
        assert_eq!(finding.as_ref().map(Finding::severity), want, "{state} {restarts}");
        assert!(
            finding.is_none_or(|f| f.remedy.unwrap().commands[0].contains("k3d-a-server-0 2>&1 | weaver"))
        );
    }
}

#[test]
fn a_log_comes_in_pieces_or_as_it_is() {
    let pieces = [&[1, 0, 0, 0, 0, 0, 0, 3][..], b"one", &[2, 0, 0, 0, 0, 0, 0, 5], b"\ntwo\n"].concat();
    assert_eq!(lines(&pieces), [b"one".to_vec(), b"two".to_vec()]);
    assert_eq!(lines(b"one\ntwo"), [b"one".to_vec(), b"two".to_vec()]);
    assert_eq!(lines(&[1, 0, 0, 0, 255, 255, 255, 255, b'x']), [b"x".to_vec()], "cut off");
    assert_eq!(lines(&[]), Vec::<Vec<u8>>::new());
}

#[test]
fn which_socket_is_asked() {
    assert_eq!(socket(None), Some(SOCKET.into()));
    assert_eq!(socket(Some(String::new())), Some(SOCKET.into()));
    assert_eq!(socket(Some("unix:///run/user/1/docker.sock".into())), Some("/run/user/1/docker.sock".into()));
    assert_eq!(socket(Some("tcp://10.0.0.1:2375".into())), None);
}

/// A Docker that answers by path.
fn docker(dir: &Path, answers: Vec<(&'static str, Vec<u8>)>) -> PathBuf {
    let path = dir.join("docker.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let length = stream.read(&mut head).unwrap();
            let head = String::from_utf8_lossy(&head[..length]).into_owned();
            let asked = head.split(' ').nth(1).unwrap();
            let body = answers.iter().find(|(path, _)| asked.starts_with(path)).map(|(_, body)| body);
            let status = if body.is_some() { "200 OK" } else { "404 Not Found" };
            let body = body.map(Vec::as_slice).unwrap_or_default();
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(&[head.as_bytes(), body].concat());
        }
    });
    path
}

#[tokio::test]
async fn a_server_that_restarts_is_named_with_what_its_log_says() {
    let dir = tempfile::tempdir().unwrap();
    let list = r#"[
        {"Id": "bad", "Names": ["/k3d-my-server-0"], "State": "restarting", "Status": "Restarting (1) 3 seconds ago"},
        {"Id": "good", "Names": ["/k3d-my-server-1"], "State": "running", "Status": "Up 5 minutes"},
        {"Id": "other", "Names": ["/postgres"], "State": "exited", "Status": "Exited (1)"}
    ]"#;
    let said = "level=fatal msg=\"failed to find memory cgroup (v2)\"\n";
    let log = [&[2, 0, 0, 0, 0, 0, 0, u8::try_from(said.len()).unwrap()][..], said.as_bytes()].concat();
    let socket = docker(
        dir.path(),
        vec![
            ("/containers/json?all=true", list.into()),
            ("/containers/bad/json", br#"{"RestartCount": 12}"#.to_vec()),
            ("/containers/good/json", br#"{"RestartCount": 0}"#.to_vec()),
            ("/containers/bad/logs", log),
        ],
    );
    let seen = look(&socket, false).await;
    let codes: Vec<_> = seen.iter().map(|seen| (seen.finding.code, seen.finding.severity())).collect();
    assert_eq!(
        codes,
        [(Code::K3dNodeRestarting, Severity::Fail), (Code::MemoryCgroupAbsent, Severity::Fail)]
    );
    assert!(seen[0].finding.evidence[0].saw.contains("started again 12 times"), "{:?}", seen[0]);
    assert!(seen[1].finding.evidence[0].place.file.contains("k3d-my-server-0"), "{:?}", seen[1]);
}

#[tokio::test]
async fn who_may_not_ask_docker_is_told_only_where_it_may_matter() {
    let dir = tempfile::tempdir().unwrap();
    assert!(look(&dir.path().join("none"), true).await.is_empty(), "there is no Docker");
    let socket = docker(dir.path(), Vec::new());
    assert!(look(&socket, false).await.is_empty());
    let seen = look(&socket, true).await;
    assert_eq!((seen[0].finding.code, seen[0].finding.severity()), (Code::MayNotLook, Severity::Unknown));
    assert!(seen[0].finding.message.contains("404"), "{:?}", seen[0]);
}

proptest! {
    // The signatures are compiled for each.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_docker_answers_is_read_and_nothing_of_it_is_obeyed(
        log in proptest::collection::vec(any::<u8>(), 0..200), text in any::<String>(), state in "[\u{1b}\r\na-z]{0,10}",
    ) {
        let read = lines(&log);
        prop_assert!(read.iter().all(|line| !line.is_empty() && !line.contains(&b'\n')));
        let _ = recognised(&text, &read);
        let listed = serde_json::json!({"Id": text, "Names": [format!("/k3d-{text}-server-0")], "State": state, "Status": text});
        let listed: Listed = serde_json::from_value(listed).unwrap();
        for finding in listed.judge(5, true).into_iter().chain(recognised(&text, &[text.clone().into_bytes()])) {
            let shown = weaver_diagnostics::finding_text::text(&finding);
            let is_obeyed = |c| c != '\n' && weaver_diagnostics::finding_text::is_unprintable(c);
            prop_assert!(!shown.contains(is_obeyed), "{shown:?}");
        }
    }
}
