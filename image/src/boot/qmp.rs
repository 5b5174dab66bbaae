//! A client of QEMU's control socket (QMP: lines of JSON).
//!
//! Guarantee: every call has a deadline, an answer is matched by its id, events
//! are kept. Failure: names the command; QEMU's own words where it refuses.
//! <https://www.qemu.org/docs/master/interop/qmp-spec.html>

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

/// For quick calls.
pub const SHORT: Duration = Duration::from_secs(20);

/// A path to a socket has at most this many bytes.
const LONGEST_PATH: usize = 107;

/// Why a machine stopped, in QEMU's word: `guest-shutdown`, `guest-reset`, …
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopReason(pub String);

/// A connection after the greeting.
#[derive(Debug)]
pub struct Qmp {
    stream: BufReader<UnixStream>,
    // The part of a line that had come when a deadline passed.
    pending: Vec<u8>,
    next_id: u64,
    events: Vec<Value>,
}

/// Refuses a path that no socket can have.
///
/// # Errors
/// Names the path and what to shorten.
pub fn check_path(path: &Path) -> Result<()> {
    if path.as_os_str().len() > LONGEST_PATH {
        bail!(
            "{} is too long for a socket ({LONGEST_PATH} bytes at most); use a shorter --dir or TMPDIR",
            path.display()
        );
    }
    Ok(())
}

impl Qmp {
    /// Connects once and reads the greeting.
    ///
    /// # Errors
    /// When nothing listens or QEMU sent no greeting within `limit`.
    pub fn connect(path: &Path, limit: Duration) -> Result<Self> {
        let stream = UnixStream::connect(path)
            .with_context(|| format!("cannot connect to QEMU at {}", path.display()))?;
        let mut client =
            Self { stream: BufReader::new(stream), pending: Vec::new(), next_id: 0, events: Vec::new() };
        let greeting = client.message(Instant::now() + limit).context("QEMU sent no greeting")?;
        if greeting.as_ref().is_none_or(|greeting| greeting.get("QMP").is_none()) {
            bail!("what listens at {} is not QEMU", path.display());
        }
        client.execute("qmp_capabilities", &json!({}), limit)?;
        Ok(client)
    }

    /// Runs a command and returns its result.
    ///
    /// # Errors
    /// When QEMU refuses, hangs up, or does not answer within `limit`.
    pub fn execute(&mut self, command: &str, arguments: &Value, limit: Duration) -> Result<Value> {
        let deadline = Instant::now() + limit;
        self.next_id += 1;
        let id = json!(self.next_id);
        let line = format!("{}\n", json!({ "execute": command, "arguments": arguments, "id": id }));
        self.stream.get_ref().set_write_timeout(Some(limit))?;
        self.stream
            .get_mut()
            .write_all(line.as_bytes())
            .with_context(|| format!("cannot send {command} to QEMU"))?;
        loop {
            let answer =
                self.message(deadline).with_context(|| format!("{command}: QEMU does not answer"))?;
            let mut answer = answer.ok_or_else(|| anyhow!("{command}: QEMU closed the connection"))?;
            if answer.get("event").is_some() {
                self.events.push(answer);
            } else if answer["id"] == id {
                if let Some(error) = answer.get("error") {
                    bail!("{command}: QEMU reports: {}", error["desc"].as_str().unwrap_or("no reason"));
                }
                return Ok(answer["return"].take());
            }
            // Otherwise it is the late answer to a command that timed out.
        }
    }

    /// Runs a command of the monitor for people, which prints nothing on success.
    ///
    /// # Errors
    /// As [`Self::execute`], and with the monitor's message when it prints anything.
    pub fn monitor(&mut self, line: &str, limit: Duration) -> Result<()> {
        let said = self.execute("human-monitor-command", &json!({ "command-line": line }), limit)?;
        match said.as_str().map(str::trim) {
            None | Some("") => Ok(()),
            Some(words) => bail!("{line}: QEMU reports: {words}"),
        }
    }

    /// After QEMU's end: reads the remaining events and returns why the machine stopped.
    ///
    /// # Errors
    /// When QEMU neither sends more nor hangs up within `limit`.
    pub fn reason(&mut self, limit: Duration) -> Result<Option<StopReason>> {
        let deadline = Instant::now() + limit;
        while let Some(message) = self.message(deadline).context("QEMU does not close the connection")? {
            self.events.push(message);
        }
        let last = self.events.iter().rev().find(|event| event["event"] == "SHUTDOWN");
        Ok(last
            .and_then(|event| event["data"]["reason"].as_str())
            .map(|reason| StopReason(reason.to_owned())))
    }

    /// The next message; `None` at the end of the stream.
    fn message(&mut self, deadline: Instant) -> Result<Option<Value>> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("timed out");
            }
            self.stream.get_ref().set_read_timeout(Some(left))?;
            match self.stream.read_until(b'\n', &mut self.pending) {
                Ok(_) if self.pending.ends_with(b"\n") => {
                    let line = std::mem::take(&mut self.pending);
                    return serde_json::from_slice(&line).map(Some).context("QEMU's answer is not JSON");
                }
                Ok(_) => return Ok(None),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => {}
                    // QEMU was killed with a request of ours unread.
                    io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => return Ok(None),
                    _ => return Err(error).context("cannot read from QEMU"),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::thread::{self, JoinHandle};

    use super::*;

    const GREETING: &str = r#"{"QMP": {"version": {}, "capabilities": []}}"#;
    const A_SECOND: Duration = Duration::from_secs(1);

    /// Sends a greeting, accepts the capabilities, then answers each line by `answers`; `ID` is replaced by the id of
    /// the request. Hangs up at the end.
    fn fake(answers: &'static [&'static str]) -> (tempfile::TempDir, PathBuf, JoinHandle<Vec<String>>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("qmp");
        let listener = UnixListener::bind(&path).unwrap();
        let server = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut writer = stream.try_clone().unwrap();
            writeln!(writer, "{GREETING}").unwrap();
            let mut heard = Vec::new();
            let mut reader = BufReader::new(stream);
            for answer in [r#"{"return": {}, "id": ID}"#].iter().chain(answers) {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap() == 0 {
                    break;
                }
                let id = serde_json::from_str::<Value>(&line).unwrap()["id"].to_string();
                heard.push(line);
                writer.write_all(answer.replace("ID", &id).as_bytes()).unwrap();
                if answer.ends_with('}') {
                    writer.write_all(b"\n").unwrap();
                }
            }
            heard
        });
        (dir, path, server)
    }

    #[test]
    fn asks_and_understands() {
        let (_dir, path, server) = fake(&[
            "{\"event\": \"STOP\"}\n{\"return\": 7, \"id\": ID}",
            "{\"return\": \"\", \"id\": ID}\n{\"event\": \"SHUTDOWN\", \"data\": {\"reason\": \"guest-reset\"}}",
        ]);
        let mut qmp = Qmp::connect(&path, A_SECOND).unwrap();
        assert_eq!(qmp.execute("seven", &json!({"a": 1}), A_SECOND).unwrap(), json!(7));
        qmp.monitor("savevm x", A_SECOND).unwrap();
        assert_eq!(qmp.reason(A_SECOND).unwrap(), Some(StopReason("guest-reset".to_owned())));
        let heard = server.join().unwrap();
        assert!(heard[0].contains("qmp_capabilities") && heard[1].contains(r#""arguments":{"a":1}"#));
        assert!(heard[2].contains(r#""command-line":"savevm x""#));
    }

    #[test]
    fn refusals_are_quoted() {
        let (_dir, path, server) = fake(&[
            r#"{"error": {"class": "GenericError", "desc": "no such thing"}, "id": ID}"#,
            r#"{"return": "Error: no room\r\n", "id": ID}"#,
        ]);
        let mut qmp = Qmp::connect(&path, A_SECOND).unwrap();
        let text = qmp.execute("cont", &json!({}), A_SECOND).unwrap_err().to_string();
        assert_eq!(text, "cont: QEMU reports: no such thing");
        let text = qmp.monitor("savevm x", A_SECOND).unwrap_err().to_string();
        assert_eq!(text, "savevm x: QEMU reports: Error: no room");
        assert_eq!(qmp.reason(A_SECOND).unwrap(), None);
        server.join().unwrap();
    }

    #[test]
    fn an_answer_that_came_too_late_is_not_taken_for_the_next() {
        // Half a line: the deadline passes in the middle of it.
        let (_dir, path, server) =
            fake(&["{\"return\": \"late\", ", "\"id\": 2}\n{\"return\": \"mine\", \"id\": ID}"]);
        let mut qmp = Qmp::connect(&path, A_SECOND).unwrap();
        let text = format!("{:#}", qmp.execute("one", &json!({}), Duration::from_millis(50)).unwrap_err());
        assert_eq!(text, "one: QEMU does not answer: timed out");
        assert_eq!(qmp.execute("two", &json!({}), A_SECOND).unwrap(), json!("mine"));
        server.join().unwrap();
    }

    #[test]
    fn a_hang_up_and_a_stranger_are_named() {
        let (_dir, path, server) = fake(&[]);
        let mut qmp = Qmp::connect(&path, A_SECOND).unwrap();
        server.join().unwrap();
        let text = format!("{:#}", qmp.execute("stop", &json!({}), A_SECOND).unwrap_err());
        assert!(text.contains("stop"), "{text}");

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("other");
        let listener = UnixListener::bind(&path).unwrap();
        let other = thread::spawn(move || writeln!(listener.accept().unwrap().0, "{{}}").unwrap());
        let text = Qmp::connect(&path, A_SECOND).unwrap_err().to_string();
        assert!(text.ends_with("is not QEMU"), "{text}");
        other.join().unwrap();
        let text = Qmp::connect(&dir.path().join("none"), A_SECOND).unwrap_err().to_string();
        assert!(text.starts_with("cannot connect to QEMU"), "{text}");
    }

    #[test]
    fn silence_ends_at_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mute");
        let _listener = UnixListener::bind(&path).unwrap();
        let text = format!("{:#}", Qmp::connect(&path, Duration::from_millis(50)).unwrap_err());
        assert_eq!(text, "QEMU sent no greeting: timed out");
    }

    #[test]
    fn a_path_too_long_for_a_socket_is_refused() {
        let path = PathBuf::from(format!("/{}", "x".repeat(107)));
        assert!(check_path(&path).unwrap_err().to_string().contains("shorter --dir"));
        check_path(Path::new("/tmp/qmp")).unwrap();
    }
}
