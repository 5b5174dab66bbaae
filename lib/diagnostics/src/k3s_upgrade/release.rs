//! Where the project publishes k3s, and where the hashes of its files are.

use super::version::Version;

pub const ADDRESS: &str = "https://github.com/k3s-io/k3s/releases/download";

/// The files of a release for one kind of machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReleaseFiles {
    pub program: &'static str,
    /// The hashes of all files for that kind of machine.
    pub sums: &'static str,
}

/// Those for an architecture as Rust names it.
pub fn files(architecture: &str) -> Option<ReleaseFiles> {
    match architecture {
        "x86_64" => Some(ReleaseFiles { program: "k3s", sums: "sha256sum-amd64.txt" }),
        "aarch64" => Some(ReleaseFiles { program: "k3s-arm64", sums: "sha256sum-arm64.txt" }),
        _ => None,
    }
}

/// The address of a file of a release below `releases`.
pub fn address(releases: &str, version: &Version, file: &str) -> String {
    let release = version.to_string().replace('+', "%2B");
    format!("{}/{release}/{file}", releases.trim_end_matches('/'))
}

/// A hash as it is reported: 64 hexadecimal digits, in lower case.
pub fn hash(text: &str) -> Option<String> {
    let is_hash = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| text.to_ascii_lowercase())
}

/// The hash of the first of these files that a list in the manner of sha256sum has.
pub fn hash_in(sums: &str, files: &[&str]) -> Option<String> {
    let of = |file: &str| {
        sums.lines().find_map(|line| {
            let (reported, name) = line.trim_end().split_once(' ')?;
            // A second space, or an asterisk for a binary file.
            (name.strip_prefix([' ', '*']).unwrap_or(name) == file).then(|| hash(reported)).flatten()
        })
    };
    files.iter().find_map(|file| of(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "c920706346d5ad4e5cd3c7bf1bb09ce71ebe07fec829e513e40f1caf98aed8bb";
    const B: &str = "835873f37245fc615f547a2fe2af9402a347875f13fa64a1f136de644955ea3f";

    #[test]
    fn the_address_is_that_of_the_lock_of_the_image() {
        let lock = include_str!("../../../../image/k3s.lock");
        let reported = |key: &str| lock.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim();
        let version = reported("version:").parse().unwrap();
        assert_eq!(address(ADDRESS, &version, "k3s-arm64"), format!("{}/k3s-arm64", reported("address:")));
        for architecture in ["aarch64", "x86_64"] {
            let program = files(architecture).unwrap().program;
            assert!(lock.contains(&format!("\n  {program}: ")), "{architecture}");
        }
        assert_eq!(files("riscv64"), None);
    }

    #[test]
    fn the_hash_of_a_file_in_a_list() {
        let sums = format!("{B}  k3s-airgap-images-arm64.tar.zst\n{A}  k3s-arm64\n");
        for (sums, names, want) in [
            (sums.as_str(), &["k3s-arm64"][..], Some(A)),
            (&sums, &["k3s-new", "k3s-arm64"], Some(A)),
            (&sums, &["k3s"], None),
            (&format!("{} *k3s\r\n", A.to_uppercase()), &["k3s"], Some(A)),
            (&format!("{}  k3s\n", &A[1..]), &["k3s"], None),
            ("<html>", &["k3s"], None),
            ("", &["k3s"], None),
        ] {
            assert_eq!(hash_in(sums, names).as_deref(), want, "{sums}");
        }
    }
}
