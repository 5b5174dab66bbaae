//! The certificate that the webhook shows: read when it is there, and again whenever it is replaced.
//!
//! Connections that are open keep the one they began with; new ones get the new one. A file that cannot be used
//! changes nothing: what was good continues serving. Each change is logged once, and never the content of a file.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use crate::log_code;
use weaver_host::key_pair::{Pair, PairFault};

/// Between two looks at the file.
const POLL: Duration = Duration::from_secs(1);
/// A certificate and its key have 2 KiB; what is larger than this is something else.
const LARGEST: u64 = 1 << 20;

/// The certificate in use, if there is one yet.
#[derive(Debug, Default)]
pub struct CertificateSlot(ArcSwapOption<CertifiedKey>);

impl CertificateSlot {
    /// From now on, new connections are shown this one.
    pub fn fill(&self, certified: Arc<CertifiedKey>) {
        self.0.store(Some(certified));
    }
}

impl ResolvesServerCert for CertificateSlot {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }
}

/// What lies at the path, as far as one can tell without reading it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum FileIdentity {
    Unreadable(io::ErrorKind),
    File { inode: u64, modified: (i64, i64), size: u64 },
}

/// What a look at the file found.
#[derive(Debug)]
pub enum FileRead {
    /// What was there the last time.
    Same,
    New(Pair),
    /// A file that is not one.
    Bad(PairFault),
    /// No file, or none that may be read.
    Unreadable(io::ErrorKind),
}

#[derive(Debug)]
pub struct CertificateFile {
    path: PathBuf,
    seen: Option<FileIdentity>,
}

impl CertificateFile {
    /// Nothing is read yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, seen: None }
    }

    /// Keeps `slot` filled with the content of the file; calls `ready` when it is filled for the first time. Never
    /// ends.
    pub async fn follow(mut self, slot: &CertificateSlot, ready: impl FnOnce()) {
        let mut ready = Some(ready);
        let mut ticks = interval(POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // 2 KiB, and only when it has changed.
            let look = self.look();
            let (file, serving) = (self.path.display(), ready.is_none());
            match look {
                FileRead::Same => {}
                FileRead::New(pair) => {
                    slot.fill(pair.certified());
                    info!(
                        code = log_code::WEBHOOK_CERTIFICATE_SERVED, %file, expires = %pair.expires(), sha256 = pair.fingerprint(),
                        "serving a certificate"
                    );
                    if let Some(ready) = ready.take() {
                        ready();
                    }
                }
                FileRead::Bad(fault) => {
                    warn!(code = log_code::WEBHOOK_CERTIFICATE_UNUSABLE, %file, "{}: {fault}", consequence(serving));
                }
                FileRead::Unreadable(io::ErrorKind::NotFound) if !serving => {
                    info!(
                        code = log_code::WEBHOOK_CERTIFICATE_AWAITED, %file,
                        "waiting for the certificate, which the installer's Job or `weaver crd install` writes"
                    );
                }
                FileRead::Unreadable(kind) => {
                    warn!(code = log_code::WEBHOOK_CERTIFICATE_UNUSABLE, %file, "{}: {kind}", consequence(serving));
                }
            }
        }
    }

    /// Reads the file, if it is another one than the last time.
    pub fn look(&mut self) -> FileRead {
        let opened = File::open(&self.path).and_then(|file| {
            // Of the open file, so that identity and content belong together whatever is renamed meanwhile.
            let metadata = file.metadata()?;
            let modified = (metadata.mtime(), metadata.mtime_nsec());
            Ok((file, FileIdentity::File { inode: metadata.ino(), modified, size: metadata.size() }))
        });
        let (file, identity) = match opened {
            Ok((file, identity)) => (Some(file), identity),
            Err(error) => (None, FileIdentity::Unreadable(error.kind())),
        };
        if self.seen == Some(identity) {
            return FileRead::Same;
        }
        self.seen = Some(identity);
        let mut content = Vec::new();
        match (file, identity) {
            (None, FileIdentity::Unreadable(kind)) => FileRead::Unreadable(kind),
            (None, FileIdentity::File { .. }) => FileRead::Unreadable(io::ErrorKind::NotFound),
            (Some(file), _) => match file.take(LARGEST).read_to_end(&mut content) {
                Ok(_) => Pair::parse(&content).map_or_else(FileRead::Bad, FileRead::New),
                Err(error) => FileRead::Unreadable(error.kind()),
            },
        }
    }
}

fn consequence(serving: bool) -> &'static str {
    if serving {
        "cannot use the new certificate, keeping the old one"
    } else {
        "cannot use the certificate, waiting for another: see the log of the installer's Job, or run `weaver crd install`"
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use jiff::Timestamp;

    use super::*;
    use weaver_host::durable_file::replace;
    use weaver_installer::certificates::{CertificateOptions, ensure};

    fn leaf() -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        ensure(dir.path(), &CertificateOptions::default(), Timestamp::UNIX_EPOCH).unwrap();
        fs::read(dir.path().join("leaf.pem")).unwrap()
    }

    #[test]
    fn each_change_of_the_file_is_seen_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("leaf.pem");
        let mut watched = CertificateFile::new(path.clone());
        let same = |watched: &mut CertificateFile| assert!(matches!(watched.look(), FileRead::Same));

        assert!(matches!(watched.look(), FileRead::Unreadable(io::ErrorKind::NotFound)));
        same(&mut watched);
        let first = leaf();
        replace(&path, &first, 0o600).unwrap();
        let FileRead::New(one) = watched.look() else { panic!("not seen") };
        same(&mut watched);
        replace(&path, &leaf(), 0o600).unwrap();
        let FileRead::New(two) = watched.look() else { panic!("not seen") };
        assert_ne!(one.fingerprint(), two.fingerprint());
        same(&mut watched);
        replace(&path, &first[..200], 0o600).unwrap();
        assert!(matches!(watched.look(), FileRead::Bad(PairFault::NotPem)));
        same(&mut watched);
        fs::remove_file(&path).unwrap();
        assert!(matches!(watched.look(), FileRead::Unreadable(io::ErrorKind::NotFound)));
        same(&mut watched);
        replace(&path, &first, 0o600).unwrap();
        let FileRead::New(again) = watched.look() else { panic!("not seen") };
        assert_eq!(one.fingerprint(), again.fingerprint());
    }

    #[test]
    fn what_is_not_a_file_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("leaf.pem");
        fs::create_dir(&path).unwrap();
        let mut watched = CertificateFile::new(path);
        assert!(matches!(watched.look(), FileRead::Unreadable(io::ErrorKind::IsADirectory)));
        assert!(matches!(watched.look(), FileRead::Same));
    }

    #[test]
    fn a_file_without_end_is_read_to_a_bound() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("leaf.pem");
        fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(matches!(CertificateFile::new(path).look(), FileRead::Bad(_)));
    }
}
