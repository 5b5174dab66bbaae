use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

#[test]
fn what_was_stopped_matters_where_something_does_not_work() {
    use Severity::{Fail, Warn};
    for (code, severity, quiet, bad) in [
        (Code::K3dClusterStopped, Fail, None, Some(Warn)),
        (Code::K3dNodeRestarting, Fail, Some(Fail), Some(Fail)),
        (Code::K3dNodeRestarting, Warn, None, Some(Warn)),
    ] {
        let finding = || Finding::new(code, "m").milder(severity);
        let seen = |is_bad| worth_it(finding(), is_bad).map(|finding| finding.severity());
        assert_eq!((seen(false), seen(true)), (quiet, bad), "{code}");
    }
}

fn engine(socket: &Path) -> Result<Option<Engine>, EngineError> {
    Engine::find(Some(&format!("unix://{}", socket.display())), Path::to_owned)
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
            // The path begins with the version of the API.
            let asked = head.split(' ').nth(1).unwrap().trim_start_matches(|c| c != 'c').to_owned();
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
    let labels = r#"{"app": "k3d", "k3d.cluster": "my", "k3d.role": "server"}"#;
    let list = format!(
        r#"[
        {{"Id": "bad", "Names": ["/k3d-my-server-0"], "State": "restarting", "Status": "Restarting", "Labels": {labels}}},
        {{"Id": "good", "Names": ["/k3d-my-server-1"], "State": "running", "Status": "Up", "Labels": {labels}}},
        {{"Id": "other", "Names": ["/postgres"], "State": "exited", "Status": "Exited (1)", "Labels": {{}}}}
    ]"#
    );
    let said = "level=fatal msg=\"failed to find memory cgroup (v2)\"\n";
    let log = [&[2, 0, 0, 0, 0, 0, 0, u8::try_from(said.len()).unwrap()][..], said.as_bytes()].concat();
    let socket = docker(
        dir.path(),
        vec![
            ("containers/json", list.into()),
            ("containers/bad/json", br#"{"RestartCount": 12}"#.to_vec()),
            ("containers/good/json", br#"{"RestartCount": 0}"#.to_vec()),
            ("containers/k3d-my-server-0/logs", log),
        ],
    );
    let seen = look(engine(&socket), false).await;
    let codes: Vec<_> = seen.iter().map(|seen| (seen.finding.code, seen.finding.severity())).collect();
    assert_eq!(
        codes,
        [(Code::K3dNodeRestarting, Severity::Fail), (Code::MemoryCgroupAbsent, Severity::Fail)]
    );
    assert!(seen[0].finding.evidence[0].saw.contains("restarted 12 times"), "{:?}", seen[0]);
    assert!(seen[1].finding.evidence[0].place.file.contains("k3d-my-server-0"), "{:?}", seen[1]);
}

#[tokio::test]
async fn without_the_right_to_ask_docker_a_note_is_shown_only_where_it_may_matter() {
    let dir = tempfile::tempdir().unwrap();
    let socket = docker(dir.path(), Vec::new());
    assert!(look(engine(&socket), false).await.is_empty());
    let seen = look(engine(&socket), true).await;
    assert_eq!(
        (seen[0].finding.code, seen[0].finding.severity()),
        (Code::ContainerEngineUnreadable, Severity::Unknown)
    );
    assert!(seen[0].finding.message.contains("404"), "{:?}", seen[0]);
}

proptest! {
    // The signatures are compiled for each.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_a_log_holds_is_read_and_nothing_of_it_is_obeyed(text in any::<String>()) {
        for finding in recognised(&text, &[text.clone().into_bytes()]) {
            let shown = weaver_diagnostics::finding_text::text(&finding);
            let is_obeyed = |c| c != '\n' && weaver_diagnostics::finding_text::is_unprintable(c);
            prop_assert!(!shown.contains(is_obeyed), "{shown:?}");
        }
    }
}
