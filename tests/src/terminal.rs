//! A terminal for a program under test: what a user at it sees, and every byte that was written to it.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use nix::pty::{Winsize, openpty};

/// The near end of a pseudo-terminal.
pub struct Terminal {
    reader: JoinHandle<()>,
    seen: Arc<Mutex<TerminalOutput>>,
}

struct TerminalOutput {
    parser: vt100::Parser,
    bytes: Vec<u8>,
}

/// The far end, for one or more of a program's streams; the terminal ends with the last of them.
pub struct Far(OwnedFd);

impl Far {
    /// A stream of a program.
    pub fn stream(&self) -> Stdio {
        self.0.try_clone().unwrap().into()
    }
}

impl Terminal {
    /// A terminal of this size; 0 is one that says none.
    pub fn open(rows: u16, columns: u16) -> (Self, Far) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let ends = openpty(&size, None).unwrap();
        let (rows, columns) = if rows == 0 { (24, 80) } else { (rows, columns) };
        let parser = vt100::Parser::new(rows, columns, 0);
        let seen = Arc::new(Mutex::new(TerminalOutput { parser, bytes: Vec::new() }));
        let (into, mut near) = (seen.clone(), File::from(ends.master));
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            // At the end of the last program with the far end it is an error.
            while let Some(count) = near.read(&mut buffer).ok().filter(|count| *count > 0) {
                let mut seen = into.lock().unwrap();
                seen.parser.process(&buffer[..count]);
                seen.bytes.extend_from_slice(&buffer[..count]);
            }
        });
        (Self { reader, seen }, Far(ends.slave))
    }

    /// What is on the screen.
    pub fn screen(&self) -> String {
        self.seen.lock().unwrap().parser.screen().contents()
    }

    /// What is on the screen when all programs have ended, and all that was written.
    pub fn end(self) -> (String, String) {
        self.reader.join().unwrap();
        let seen = self.seen.lock().unwrap();
        (seen.parser.screen().contents(), String::from_utf8_lossy(&seen.bytes).into_owned())
    }
}
