//! The webhook's certificates: our own CA, and the certificate that the webhook shows.
//!
//! A directory holds `ca.pem` (the CA and its key, for its owner only) and `leaf.pem` (the webhook's certificate
//! and key, for its [`Readers`] too). [`ensure`] makes what is missing and renews what is due. Each file is replaced
//! whole, the CA first, so a run that was killed at any point is finished by the next. The CA is made once and
//! never replaced: it is what API servers trust. One that cannot be read is reported, with the remedy.
//!
//! Keys never leave the two files. Where the webhook runs in the cluster both lie in one Secret instead ([`secret`]).

mod issue;
pub mod secret;
mod verdict;

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{ServerName, UnixTime};
use tracing::info;

use self::verdict::{CertificateVerdict, FoundCertificate, renew_at, verdict};
use crate::log_code;
use weaver_api::webhook::LEAF;
use weaver_host::durable_file::{WriteError, WriteOptions, replace, replace_as};
use weaver_host::file_lock::lock_within;
use weaver_host::key_pair::{Pair, PairFault};
use weaver_host::platform;

pub use self::verdict::RenewalReason;

/// The file with the CA and its key.
pub const CA: &str = "ca.pem";
/// Names that every certificate is good for: the API server's own host.
pub const OWN_NAMES: [&str; 3] = ["127.0.0.1", "::1", "localhost"];

/// What certificates to make.
#[derive(Clone, Debug)]
pub struct CertificateOptions {
    /// DNS names and addresses besides [`OWN_NAMES`].
    pub names: Vec<String>,
    /// How long the webhook's certificate is valid from now on; renewed after two thirds of that.
    pub lifetime: Duration,
    /// Who reads the webhook's key, besides the owner of its file.
    pub readers: Readers,
    /// How long to wait for another installer that works in the same directory.
    pub patience: Duration,
}

/// Who reads the webhook's key, besides the owner of its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readers {
    /// The group of the directory, whichever that is: who made the directory has chosen it.
    #[default]
    DirectoryGroup,
    /// The group with this numeric id, which the webhook runs as.
    Group(u32),
    /// None: the group that should read it does not exist.
    OwnerOnly,
}

impl Default for CertificateOptions {
    fn default() -> Self {
        let lifetime = Duration::from_hours(24 * 90);
        Self { names: Vec::new(), lifetime, readers: Readers::default(), patience: Duration::from_secs(10) }
    }
}

/// The certificates that are now in the directory.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The CA's certificate as PEM, without its key: what `caBundle` has to be.
    pub ca_bundle: String,
    /// From then on clients refuse the webhook's certificate.
    pub leaf_expires: Timestamp,
    /// When [`ensure`] will have something to do, if nothing but time changes.
    pub renew_at: Timestamp,
    /// Was any certificate made?
    pub changed: bool,
}

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The CA's file is there and of no use. It is not replaced: someone may have the right one.
    #[error(
        "{} cannot be used as the webhook's CA: {fault}; put the right file back, or remove it (`rm {}`) \
         and run the installation again, which creates a new CA and registers it with the API server",
        path.display(), path.display()
    )]
    Authority {
        path: PathBuf,
        /// What is wrong with it.
        fault: PairFault,
    },
    /// A name that no certificate can be made for.
    #[error("{0:?} is neither a DNS name nor an IP address, so it cannot be in a certificate")]
    Name(String),
    /// Someone else works in the directory.
    #[error(
        "another installation is running: {} is still locked after {} s; stop it, then try again",
        path.display(),
        patience.as_secs()
    )]
    Busy {
        path: PathBuf,
        /// How long was waited.
        patience: Duration,
    },
    /// A file or directory that cannot be read, made or given to the group.
    #[error("cannot {verb} {}", path.display())]
    File {
        verb: &'static str,
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file that could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A certificate could not be made.
    #[error("making {} failed", path.display())]
    Make { path: PathBuf, source: rcgen::Error },
    /// A certificate was made, and a client would refuse it.
    #[error(
        "a new certificate for {} would be refused ({reason}): the CA in {} is not one that we make; remove it \
         (`rm {}`) and run the installation again", leaf.display(), authority.display(), authority.display()
    )]
    Refused { leaf: PathBuf, authority: PathBuf, reason: RenewalReason },
}

impl CertificateError {
    /// Would trying again be of no use until a user has put another CA there, or none?
    pub const fn is_refusal(&self) -> bool {
        matches!(self, Self::Authority { .. } | Self::Refused { .. })
    }
}

/// Makes CA and certificate in `dir`, or renews the certificate, where that is due at `now`.
///
/// Blocks while another installation has locked the directory, no longer than `options.patience`.
///
/// # Errors
/// A file could not be read or written, or the CA's file has other content.
pub fn ensure(
    dir: &Path,
    options: &CertificateOptions,
    now: Timestamp,
) -> Result<Certificates, CertificateError> {
    let wanted = wanted(&options.names)?;
    make_directory(dir, options.readers)?;
    let _lock = lock(dir, options.patience)?;
    let (rights, group) = match options.readers {
        Readers::Group(group) => (0o640, Some(group)),
        Readers::DirectoryGroup => {
            (0o640, platform::owner(&fs::metadata(dir).map_err(failed("look at", dir))?).gid)
        }
        Readers::OwnerOnly => (0o600, None),
    };
    let (authority, ca_bundle, made) = authority(&dir.join(CA))?;
    let path = dir.join(LEAF);
    let found = find(&path, &authority)?;
    let (found, renewed) = match verdict(&found, now, &wanted, options.lifetime) {
        CertificateVerdict::Keep => {
            open_to(&path, rights, group)?;
            (found, false)
        }
        CertificateVerdict::Renew(reason) => {
            let expires = now.checked_add(options.lifetime).unwrap_or(Timestamp::MAX);
            let text = issue::leaf(&authority, &wanted, expires)
                .map_err(|source| CertificateError::Make { path: path.clone(), source })?;
            let made = judge(Pair::parse(text.as_bytes()), &authority);
            if let CertificateVerdict::Renew(
                reason @ (RenewalReason::Untrusted
                | RenewalReason::Unreadable(_)
                | RenewalReason::NameMissing(_)),
            ) = verdict(&made, now, &wanted, options.lifetime)
            {
                return Err(CertificateError::Refused { leaf: path, authority: dir.join(CA), reason });
            }
            replace_as(&path, text.as_bytes(), &WriteOptions { gid: group, ..WriteOptions::mode(rights) })?;
            info!(
                code = log_code::WEBHOOK_CERTIFICATE_MADE, file = %path.display(), %expires,
                "issued a new webhook certificate: {reason}"
            );
            (made, true)
        }
    };
    let leaf_expires = found.expires().unwrap_or(now);
    let renew_at = renew_at(leaf_expires, options.lifetime);
    Ok(Certificates { ca_bundle, leaf_expires, renew_at, changed: made || renewed })
}

/// [`OWN_NAMES`] and `others`, as certificates spell them.
fn wanted(others: &[String]) -> Result<BTreeSet<String>, CertificateError> {
    let names = OWN_NAMES.into_iter().chain(others.iter().map(String::as_str));
    names
        .map(|name| match (name.parse::<IpAddr>(), ServerName::try_from(name)) {
            (Ok(address), _) => Ok(address.to_string()),
            (_, Ok(ServerName::DnsName(name))) => Ok(name.as_ref().to_ascii_lowercase()),
            _ => Err(CertificateError::Name(name.to_owned())),
        })
        .collect()
}

/// The CA, its certificate as PEM, and whether it was made now.
fn authority(path: &Path) -> Result<(Pair, String, bool), CertificateError> {
    let (text, made) = match fs::read(path) {
        Ok(text) => {
            open_to(path, 0o600, None)?;
            (text, false)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = issue::authority()
                .map_err(|source| CertificateError::Make { path: path.to_owned(), source })?
                .into_bytes();
            replace(path, &text, 0o600)?;
            info!(code = log_code::WEBHOOK_CA_MADE, file = %path.display(), "created a new CA for the webhook");
            (text, true)
        }
        Err(error) => return Err(failed("read", path)(error)),
    };
    let of_no_use = |fault| CertificateError::Authority { path: path.to_owned(), fault };
    let pair = Pair::parse(&text).map_err(of_no_use)?;
    if !pair.is_ca() {
        return Err(of_no_use(PairFault::NotCa));
    }
    let bundle = certificate_block(&text).ok_or_else(|| of_no_use(PairFault::NoCertificate))?;
    Ok((pair, bundle, made))
}

/// The first certificate of a file, and nothing else of it.
fn certificate_block(text: &[u8]) -> Option<String> {
    const END: &str = "-----END CERTIFICATE-----";
    let text = std::str::from_utf8(text).ok()?;
    let rest = &text[text.find("-----BEGIN CERTIFICATE-----")?..];
    Some(format!("{}\n", &rest[..rest.find(END)? + END.len()]))
}

fn find(path: &Path, authority: &Pair) -> Result<FoundCertificate, CertificateError> {
    match fs::read(path) {
        Ok(text) => Ok(judge(Pair::parse(&text), authority)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(FoundCertificate::Missing),
        Err(error) => Err(failed("read", path)(error)),
    }
}

fn judge(leaf: Result<Pair, PairFault>, authority: &Pair) -> FoundCertificate {
    match leaf {
        Ok(leaf) => FoundCertificate::Leaf {
            trusted: is_trusted(&leaf, authority).unwrap_or(false),
            names: leaf.names().clone(),
            expires: leaf.expires(),
        },
        Err(fault) => FoundCertificate::Unreadable(fault),
    }
}

/// Does a TLS client that trusts `authority` alone accept `leaf` in the last second of its life? `None` where
/// the question cannot even be put.
fn is_trusted(leaf: &Pair, authority: &Pair) -> Option<bool> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate().ok()?.clone()).ok()?;
    let provider = Arc::new(default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()?;
    let last = u64::try_from(leaf.expires().as_second()).ok()?.checked_sub(1)?;
    let time = UnixTime::since_unix_epoch(Duration::from_secs(last));
    let name = ServerName::try_from(leaf.names().first()?.as_str()).ok()?;
    Some(verifier.verify_server_cert(leaf.certificate().ok()?, &[], &name, &[], time).is_ok())
}

/// For owner and group; the parents that are missing for everybody, so that the group can enter it.
fn make_directory(dir: &Path, readers: Readers) -> Result<(), CertificateError> {
    let missing: Vec<_> = dir.ancestors().take_while(|path| is_missing(path)).collect();
    for path in missing.into_iter().rev() {
        let mode = if path == dir { 0o750 } else { 0o755 };
        match platform::create_directory(path, mode) {
            // Whatever the umask is.
            Ok(()) => {
                let opened = platform::set_path_mode(path, mode);
                opened.map_err(failed("set the mode of", path))?;
            }
            // Another installer was faster.
            Err(_) if path.is_dir() => {}
            Err(error) => return Err(failed("make the directory", path)(error)),
        }
    }
    match readers {
        // Also where it was another program's group that could read it, as in earlier versions.
        Readers::Group(group) => open_to(dir, 0o750, Some(group)),
        Readers::OwnerOnly => open_to(dir, 0o700, None),
        Readers::DirectoryGroup => Ok(()),
    }
}

/// Has it to be made? The empty parent of a relative path has not.
fn is_missing(path: &Path) -> bool {
    !path.as_os_str().is_empty() && !path.is_dir()
}

/// Gives a file or directory the mode and group that it should have, if it has others.
fn open_to(path: &Path, mode: u32, group: Option<u32>) -> Result<(), CertificateError> {
    let owner = platform::owner(&fs::metadata(path).map_err(failed("look at", path))?);
    if let Some(group) = group.filter(|group| Some(*group) != owner.gid) {
        platform::give_path(path, group).map_err(failed("give to the webhook's group", path))?;
    }
    if owner.mode != Some(mode) {
        platform::set_path_mode(path, mode).map_err(failed("set the mode of", path))?;
    }
    Ok(())
}

/// Held until the file is closed, by the kernel's hand if need be.
fn lock(dir: &Path, patience: Duration) -> Result<File, CertificateError> {
    let path = dir.join(".lock");
    let file = platform::open_or_create(&path).map_err(failed("write", &path))?;
    match lock_within(&file, patience) {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(CertificateError::Busy { path, patience }),
        Err(TryLockError::Error(error)) => Err(failed("lock", &path)(error)),
    }
}

fn failed(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CertificateError {
    let path = path.to_owned();
    move |source| CertificateError::File { verb, path, source }
}

#[cfg(test)]
mod tests;
