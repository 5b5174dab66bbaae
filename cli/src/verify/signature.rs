//! The signature of SHA256SUMS, as minisign makes it. Pure.
//!
//! Guarantee: a valid signature covers exactly these bytes and the comment that is returned. Only signatures of the
//! hash are accepted, which minisign makes since 0.10 by default: a legacy one could be of a text with another meaning.
//! Failure: what is wrong with key or signature, and what to do.

use anyhow::{bail, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use minisign_verify::{Error, PublicKey, Signature};

/// Bytes of a public key before and with its identity, and all of them.
const ALGORITHM: usize = 2;
const IDENTITY: usize = 10;
const KEY: usize = 42;
/// Lines of a signature.
const LINES: usize = 4;

/// A public key, and what minisign calls it.
#[derive(Debug)]
pub struct MinisignKey {
    key: PublicKey,
    pub id: String,
}

/// The key of a file that `minisign -G` wrote, or its second line alone.
pub fn key(text: &str) -> anyhow::Result<MinisignKey> {
    ensure!(
        !text.contains("secret key"),
        "it is the secret key: name the public one, a file that ends with .pub, and show this one to no one"
    );
    ensure!(
        !text.contains("-----BEGIN"),
        "it is a key of another program: minisign's has two lines, and the second begins with RW"
    );
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let (&[line] | &[_, line]) = &lines[..] else {
        bail!("a public key of minisign has two lines, this file has {}", lines.len());
    };
    let (Ok(key), Some(id)) = (PublicKey::from_base64(line), id(line, KEY)) else {
        bail!("`{line}` is not a minisign public key: 56 characters that begin with RW; copy it again");
    };
    Ok(MinisignKey { key, id })
}

/// Judges the signature of `signed`; returns the comment that was signed with it.
pub fn check(key: &MinisignKey, signature: &str, signed: &[u8]) -> anyhow::Result<String> {
    ensure!(
        !signature.contains("-----BEGIN"),
        "it is a signature of another program; minisign's begins with `untrusted comment:`"
    );
    let lines: Vec<&str> = signature.lines().collect();
    ensure!(
        lines.len() >= LINES,
        "it is cut off: a signature has {LINES} lines, this one {}; download it again",
        lines.len()
    );
    let decoded = match Signature::decode(signature) {
        Ok(decoded) => decoded,
        Err(Error::UnsupportedAlgorithm) => bail!("it is of an algorithm that minisign does not have"),
        Err(_) => bail!("it is not a minisign signature, or was changed in transfer; download it again"),
    };
    match key.key.verify(signed, &decoded, false) {
        Ok(()) => Ok(decoded.trusted_comment().to_owned()),
        Err(Error::UnexpectedKeyId) => {
            let id = id(lines[1], 74).unwrap_or_default();
            bail!(
                "it is by the key {id}, and yours is {}: take the key from where you trust it, not from next to the file",
                key.id
            )
        }
        Err(Error::UnexpectedAlgorithm) => bail!(
            "it is a legacy signature, of the text and not of its hash, which is not taken: sign with minisign 0.10 or \
             later, without -l"
        ),
        Err(_) => bail!(
            "it names the key {}, but does not match these bytes: the list or the signature was changed, or \
             they are of two releases",
            key.id
        ),
    }
}

/// What minisign prints as the identity of the key in this line, which has so many bytes.
fn id(line: &str, length: usize) -> Option<String> {
    let bytes = BASE64_STANDARD.decode(line).ok().filter(|bytes| bytes.len() == length)?;
    let id = bytes.get(ALGORITHM..IDENTITY)?.try_into().ok()?;
    Some(format!("{:016X}", u64::from_le_bytes(id)))
}

#[cfg(test)]
mod tests;
