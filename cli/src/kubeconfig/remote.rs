//! A program on another machine, which may be hostile.
//!
//! Guarantees: size and duration of its answer are limited; its messages are shown line by line behind the name of the
//! machine, and none of its control characters reaches the terminal.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use crate::stdout::note;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::Command;
use tokio::time::timeout;
use weaver_diagnostics::finding_text::cut;

/// What is accepted from another machine.
#[derive(Clone, Copy)]
pub struct RemoteLimits {
    /// Bytes of its answer.
    answer: u64,
    /// Bytes of its messages; the rest is read and not shown.
    messages: usize,
    /// Until it has ended, with the time to type a password.
    time: Duration,
}

impl Default for RemoteLimits {
    fn default() -> Self {
        Self { answer: 1 << 20, messages: 64 << 10, time: Duration::from_mins(5) }
    }
}

pub struct SshOutput {
    /// The exit status; none after a signal.
    pub code: Option<i32>,
    /// What it printed. Never part of a message: it contains a key.
    pub stdout: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The program could not be run or read.
    #[error("cannot be asked: {0}")]
    Run(#[from] io::Error),
    #[error("sent more than {} KiB, too large for a kubeconfig", .0 >> 10)]
    TooLarge(u64),
    /// It does not end.
    #[error("did not end within {} seconds", .0.as_secs())]
    TooLong(Duration),
}

/// Runs a program that queries `machine`. It is killed when it exceeds a limit.
pub async fn answer(
    mut program: Command,
    machine: &str,
    limits: RemoteLimits,
) -> Result<SshOutput, RemoteError> {
    // ssh asks for passwords at the terminal itself.
    program.stdin(Stdio::inherit()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = program.spawn()?;
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(RemoteError::Run(io::ErrorKind::BrokenPipe.into()));
    };
    let all = async {
        let messages = async { Ok(show(stderr, limits.messages, |line| note!("{machine}: {line}")).await?) };
        let (stdout, ()) = tokio::try_join!(limited(stdout, limits.answer), messages)?;
        Ok(SshOutput { code: child.wait().await?.code(), stdout })
    };
    timeout(limits.time, all).await.unwrap_or(Err(RemoteError::TooLong(limits.time)))
}

async fn limited(from: impl AsyncRead + Unpin, most: u64) -> Result<Vec<u8>, RemoteError> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes).await?;
    if bytes.len() as u64 > most { Err(RemoteError::TooLarge(most)) } else { Ok(bytes) }
}

/// Shows each line, cleaned, until the limit is reached; then reads on to the end.
async fn show(from: impl AsyncRead + Unpin, most: usize, mut tell: impl FnMut(&str)) -> io::Result<()> {
    /// No line of a terminal is longer.
    const LINE: u64 = 1024;
    let mut from = BufReader::new(from);
    let (mut line, mut shown) = (Vec::new(), 0);
    while (&mut from).take(LINE).read_until(b'\n', &mut line).await? > 0 {
        if shown <= most {
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches(['\n', '\r']);
            tell(&cut(text, usize::MAX));
            shown += line.len();
            if shown > most {
                tell("(the rest is not shown)");
            }
        }
        line.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    async fn asked(script: &str, limits: RemoteLimits) -> Result<SshOutput, RemoteError> {
        let mut sh = Command::new("sh");
        sh.args(["-c", script]);
        answer(sh, "pi", limits).await
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn an_answer_beyond_a_limit_is_none() {
        let limits = RemoteLimits { answer: 100, messages: 10, time: Duration::from_secs(20) };
        let short = asked("printf hello; echo note >&2; exit 3", limits).await.unwrap();
        assert_eq!((short.code, &*short.stdout), (Some(3), &b"hello"[..]));
        let fits = asked("head -c 100 /dev/zero", limits).await.unwrap();
        assert_eq!((fits.code, fits.stdout.len()), (Some(0), 100));
        assert!(matches!(asked("cat /dev/zero", limits).await, Err(RemoteError::TooLarge(100))));
        let soon = RemoteLimits { time: Duration::from_millis(100), ..limits };
        assert!(matches!(asked("exec sleep 60", soon).await, Err(RemoteError::TooLong(_))));
        // Half of a line forever, and messages without an end.
        assert!(matches!(asked("exec cat /dev/zero >&2", soon).await, Err(RemoteError::TooLong(_))));
        let mut none = Command::new("/nowhere/ssh");
        none.arg("x");
        assert!(matches!(answer(none, "pi", limits).await, Err(RemoteError::Run(_))));
    }

    #[tokio::test]
    async fn messages_are_shown_and_not_obeyed() {
        let mut reported = Vec::new();
        let said = b"a\x1b[2Jb\r\n\xff\x07\nlast";
        show(&said[..], 1000, |line| reported.push(line.to_owned())).await.unwrap();
        assert_eq!(reported, ["a\\u{1b}[2Jb", "\u{fffd}\\u{7}", "last"]);
        let mut reported = Vec::new();
        show(&vec![b'x'; 100_000][..], 2000, |line| reported.push(line.len())).await.unwrap();
        assert_eq!(reported, [1024, 1024, 23]);
    }
}
