//! What is on the card, as `CycloneDX` 1.6: Debian's packages, the crates in our programs, k3s; and what is
//! in one program.
//!
//! Guarantees: same input, same bytes; names and versions as the archive and the lock have them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::packages::DebianPackage;
use super::tools::output;
use crate::archives::CardArchive;

/// A crate that a program on the card is built from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Crate {
    name: String,
    version: String,
    license: Option<String>,
}

/// k3s, or its replacement.
#[derive(Debug)]
pub struct K3sComponent<'a> {
    /// The version that it reports.
    pub version: &'a str,
    /// The hash of the file on the card.
    pub sha256: &'a str,
}

/// The crates that `programs` are built from, for the card's architecture.
///
/// # Errors
/// When cargo fails.
pub fn crates(source: &Path, target: &str, programs: &[&str]) -> Result<Vec<Crate>> {
    let mut command = Command::new("cargo");
    command.current_dir(source).args(["tree", "--locked", "--target", target, "--edges", "normal,build"]);
    command.args(["--prefix", "none", "--format", "{p}\t{l}"]);
    for program in programs {
        command.args(["-p", program]);
    }
    let mut crates: Vec<_> = output(&mut command)?.lines().filter_map(line).collect();
    crates.sort();
    crates.dedup();
    Ok(crates)
}

/// `serde v1.0.0 (proc-macro) <tab> MIT (*)`.
fn line(line: &str) -> Option<Crate> {
    let (package, rest) = line.split_once('\t')?;
    let mut words = package.split(' ');
    let name = words.next()?.to_owned();
    let version = words.next()?.strip_prefix('v')?.to_owned();
    let license = rest.trim_end_matches("(*)").trim();
    Some(Crate { name, version, license: (!license.is_empty()).then(|| license.to_owned()) })
}

/// The bill, as indented JSON.
///
/// # Errors
/// It could not be written as JSON.
pub fn cyclonedx(
    version: &str,
    packages: &[DebianPackage],
    crates: &[Crate],
    k3s: &K3sComponent<'_>,
    archives: &[CardArchive],
) -> Result<String> {
    let debian = packages.iter().map(|package| {
        let DebianPackage { name, version, architecture, source, sha256 } = package;
        let purl = format!("pkg:deb/debian/{name}@{}?arch={architecture}", encoded(version));
        let mut component = json!({
            "type": "library", "bom-ref": purl, "purl": purl, "name": name, "version": version,
            "properties": [{"name": "debian:source", "value": format!("{} {}", source.0, source.1)}],
        });
        if let Some(hash) = sha256 {
            component["hashes"] = json!([{"alg": "SHA-256", "content": hash}]);
        }
        component
    });
    let rust = crates.iter().map(component);
    let k3s = json!({
        "type": "application", "bom-ref": "k3s", "name": "k3s", "version": k3s.version,
        "hashes": [{"alg": "SHA-256", "content": k3s.sha256}],
    });
    let archives = archives.iter().map(|CardArchive { name, sha256, .. }| {
        json!({
            "type": "file", "bom-ref": format!("images/{name}"), "name": format!("images/{name}"),
            "hashes": [{"alg": "SHA-256", "content": sha256}],
        })
    });
    let components: Vec<Value> = debian.chain(rust).chain([k3s]).chain(archives).collect();
    bill(&json!({"type": "operating-system", "name": "config-weaver", "version": version}), &components)
}

/// The bill of a program that is made of these crates.
///
/// # Errors
/// It could not be written as JSON.
pub fn of_program(program: &str, version: &str, crates: &[Crate]) -> Result<String> {
    let components: Vec<Value> = crates.iter().map(component).collect();
    bill(&json!({"type": "application", "name": program, "version": version}), &components)
}

fn component(Crate { name, version, license }: &Crate) -> Value {
    let purl = format!("pkg:cargo/{name}@{}", encoded(version));
    let mut component =
        json!({"type": "library", "bom-ref": purl, "purl": purl, "name": name, "version": version});
    if let Some(license) = license {
        component["licenses"] = json!([{"expression": spdx(license)}]);
    }
    component
}

fn bill(of: &Value, components: &[Value]) -> Result<String> {
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": of},
        "components": components,
    });
    serde_json::to_string_pretty(&bill).map(|text| text + "\n").context("writing the bill of materials")
}

/// Cargo still accepts a slash for `OR`, SPDX does not.
fn spdx(license: &str) -> String {
    license.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")
}

/// A version in a package URL.
fn encoded(version: &str) -> String {
    version.replace('%', "%25").replace('+', "%2B").replace(':', "%3A").replace('~', "%7E")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_lines_are_read() {
        let crate_of = |text| line(text).map(|c| (c.name, c.version, c.license));
        let some = |name: &str, version: &str, license: Option<&str>| {
            Some((name.to_owned(), version.to_owned(), license.map(str::to_owned)))
        };
        assert_eq!(crate_of("a v1.0.0\tMIT OR X (*)"), some("a", "1.0.0", Some("MIT OR X")));
        assert_eq!(crate_of("b v2.0.0 (proc-macro)\t"), some("b", "2.0.0", None));
        assert_eq!(crate_of(""), None);
    }

    #[test]
    fn everything_on_the_card_is_in_the_bill() {
        let package = DebianPackage {
            name: "udev".into(),
            version: "1:2+b1~x".into(),
            architecture: "arm64".into(),
            source: ("systemd".into(), "2".into()),
            sha256: Some("ff".into()),
        };
        let license = Some("MIT / Apache-2.0".into());
        let tokio = Crate { name: "tokio".into(), version: "1.0.0".into(), license };
        let k3s = K3sComponent { version: "v1", sha256: "ee" };
        let archive = CardArchive {
            name: "app.tar".to_owned(),
            path: "/home/ada/app.tar".into(),
            sha256: "dd".to_owned(),
            size: 1,
        };
        let bill = cyclonedx("0.1.0", &[package], &[tokio], &k3s, &[archive]).unwrap();
        assert!(!bill.contains("/home"), "{bill}");
        let bill: Value = serde_json::from_str(&bill).unwrap();
        let purls: Vec<_> =
            bill["components"].as_array().unwrap().iter().map(|c| c["bom-ref"].clone()).collect();
        let images = "images/app.tar";
        let udev = "pkg:deb/debian/udev@1%3A2%2Bb1%7Ex?arch=arm64";
        assert_eq!(purls, [udev, "pkg:cargo/tokio@1.0.0", "k3s", images]);
        assert_eq!(bill["components"][3]["hashes"][0]["content"], "dd");
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "ff");
        assert_eq!(bill["components"][1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
    }
}
