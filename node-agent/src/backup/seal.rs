//! The age encryption of a backup.
//!
//! Guarantees: a file that was truncated or changed is refused, and none of what was read of it is used. Failure: says
//! which key is missing; no error contains a passphrase.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::iter;
use std::path::{Path, PathBuf};

use age::secrecy::SecretString;
use age::stream::StreamWriter;
use age::{DecryptError, Decryptor, Encryptor, IdentityFile, x25519};
use anyhow::{Context as _, anyhow, bail, ensure};
use weaver_diagnostics::node_backup::manifest::{Damage, HIGHEST_WORK_FACTOR};

/// How every file of age begins.
const MARK: &[u8] = b"age-encryption.org/v1\n";
/// Bytes of a file with a passphrase.
const LIMIT: u64 = 4096;
/// Work factor of a backup that is made, the one of `age`: 256 MiB, which each node can read again. What takes a second
/// on this machine, as the crate chooses, may be 1 GiB.
const WORK_FACTOR: u8 = if cfg!(test) { 10 } else { 18 };

/// For whom a backup is encrypted.
#[derive(Debug, Clone, Default)]
pub enum Seal {
    #[default]
    Open,
    /// For the owners of the matching secret keys.
    Recipients(Vec<x25519::Recipient>),
    Passphrase(SecretString),
}

/// With what a backup is decrypted.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct DecryptionArgs {
    /// File with the passphrase of an encrypted backup.
    #[arg(long, value_name = "FILE", conflicts_with = "identity")]
    pub passphrase_file: Option<PathBuf>,
    /// File with the age identity (AGE-SECRET-KEY-1…) of an encrypted backup.
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
}

impl Seal {
    /// By the options given.
    ///
    /// # Errors
    /// It is no recipient, or the passphrase cannot be read.
    pub fn of(recipients: &[String], passphrase_file: Option<&Path>) -> anyhow::Result<Self> {
        match passphrase_file {
            Some(file) => Ok(Self::Passphrase(passphrase(file)?)),
            None if recipients.is_empty() => Ok(Self::Open),
            None => {
                let parse = |text: &String| {
                    let parsed = text.trim().parse::<x25519::Recipient>();
                    // A secret key that was given by mistake is not repeated.
                    parsed
                        .map_err(|why| anyhow!("a recipient is not one of age ({why}): it begins with age1"))
                };
                Ok(Self::Recipients(recipients.iter().map(parse).collect::<Result<_, _>>()?))
            }
        }
    }

    pub const fn is_closed(&self) -> bool {
        !matches!(self, Self::Open)
    }

    /// Encrypts what is written.
    ///
    /// # Errors
    /// The header cannot be written.
    pub fn close<W: Write>(&self, to: W) -> anyhow::Result<Sealing<W>> {
        let encryptor = match self {
            Self::Open => return Ok(Sealing::Open(to)),
            Self::Passphrase(passphrase) => {
                let mut recipient = age::scrypt::Recipient::new(passphrase.clone());
                recipient.set_work_factor(WORK_FACTOR);
                let recipient: &dyn age::Recipient = &recipient;
                Encryptor::with_recipients(iter::once(recipient))
                    .context("encrypting with this passphrase")?
            }
            Self::Recipients(recipients) => {
                let recipients = recipients.iter().map(|recipient| recipient as &dyn age::Recipient);
                Encryptor::with_recipients(recipients).context("encrypting for these recipients")?
            }
        };
        Ok(Sealing::Age(Box::new(encryptor.wrap_output(to).context("beginning to encrypt")?)))
    }

    /// Reads again what was written; `None` where only the owner of the identity can.
    ///
    /// # Errors
    /// It cannot be decrypted.
    pub fn open<'a>(&self, from: impl Read + 'a) -> anyhow::Result<Option<Box<dyn Read + 'a>>> {
        Ok(match self {
            Self::Open => Some(Box::new(from)),
            Self::Passphrase(passphrase) => Some(decrypt(from, &[Box::new(scrypt(passphrase))])?),
            Self::Recipients(_) => None,
        })
    }
}

impl DecryptionArgs {
    /// Reads a backup, whether it is encrypted or not.
    ///
    /// # Errors
    /// The key is missing or wrong.
    pub fn open<'a>(&self, from: impl Read + 'a) -> anyhow::Result<Box<dyn Read + 'a>> {
        let mut from = BufReader::with_capacity(1 << 18, from);
        if !from.fill_buf().context("cannot read the backup")?.starts_with(MARK) {
            return Ok(Box::new(from));
        }
        match (&self.passphrase_file, &self.identity) {
            (Some(file), _) => decrypt(from, &[Box::new(scrypt(&passphrase(file)?))]),
            (None, Some(file)) => {
                let what = || format!("cannot read an age identity in {}", file.display());
                let opened = BufReader::new(fs::File::open(file).with_context(what)?);
                let identities = IdentityFile::from_buffer(opened).with_context(what)?;
                decrypt(from, &identities.into_identities().map_err(|why| anyhow!("{}: {why}", what()))?)
            }
            (None, None) => bail!(Damage::Locked),
        }
    }
}

fn scrypt(passphrase: &SecretString) -> age::scrypt::Identity {
    let mut identity = age::scrypt::Identity::new(passphrase.clone());
    identity.set_max_work_factor(HIGHEST_WORK_FACTOR);
    identity
}

fn decrypt<'a>(
    from: impl Read + 'a,
    identities: &[Box<dyn age::Identity + Send + Sync>],
) -> anyhow::Result<Box<dyn Read + 'a>> {
    let refused = |error: DecryptError| match error {
        DecryptError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => Damage::CutShort,
        DecryptError::DecryptionFailed | DecryptError::KeyDecryptionFailed | DecryptError::NoMatchingKeys => {
            Damage::WrongKey
        }
        DecryptError::ExcessiveWork { required, .. } => Damage::Work(required),
        other => Damage::Broken(other.to_string()),
    };
    let decryptor = Decryptor::new(from).map_err(refused)?;
    let identities = identities.iter().map(|identity| identity.as_ref() as &dyn age::Identity);
    Ok(Box::new(decryptor.decrypt(identities).map_err(refused)?))
}

/// The first line of a file.
fn passphrase(file: &Path) -> anyhow::Result<SecretString> {
    let what = || format!("cannot read a passphrase in {}", file.display());
    let mut text = String::new();
    let read = fs::File::open(file).and_then(|file| file.take(LIMIT).read_to_string(&mut text));
    read.with_context(what)?;
    let first = text.lines().next().unwrap_or_default();
    ensure!(!first.is_empty(), "{}: its first line is empty", what());
    Ok(SecretString::from(first.to_owned()))
}

/// What is written, encrypted or not.
pub enum Sealing<W: Write> {
    Open(W),
    Age(Box<StreamWriter<W>>),
}

impl<W: Write> Sealing<W> {
    /// Ends it; otherwise the encrypted file counts as truncated.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Self::Open(to) => Ok(to),
            Self::Age(writer) => writer.finish(),
        }
    }
}

impl<W: Write> Write for Sealing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Open(to) => to.write(bytes),
            Self::Age(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Open(to) => to.flush(),
            Self::Age(writer) => writer.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passphrase_that_takes_the_memory_of_a_pi_is_refused_before_it_is_tried() {
        let seal = Seal::Passphrase(SecretString::from("correct horse".to_owned()));
        let mut sealing = seal.close(Vec::new()).unwrap();
        sealing.write_all(b"content").unwrap();
        let mut sealed = sealing.finish().unwrap();
        let mut content = String::new();
        seal.open(&sealed[..]).unwrap().unwrap().read_to_string(&mut content).unwrap();
        assert_eq!(content, "content");
        // `-> scrypt SALT 10`
        let factor = sealed.windows(4).position(|four| four == b" 10\n").unwrap();
        sealed[factor + 1..factor + 3].copy_from_slice(b"22");
        let error = seal.open(&sealed[..]).map(drop).unwrap_err();
        assert_eq!(error.downcast_ref::<Damage>(), Some(&Damage::Work(22)));
        assert!(
            error.to_string().contains("work factor of 22") && error.to_string().contains("age --decrypt")
        );
    }
}
