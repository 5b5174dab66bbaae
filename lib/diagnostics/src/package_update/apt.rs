//! What apt knows of packages, of the answer of `apt-cache policy`; and what it would do, of that of `apt-get
//! --simulate`.

use super::PACKAGES;

/// Where apt counts the installed package as a source.
const STATUS_FILE: &str = "/var/lib/dpkg/status";

/// A package that apt knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AptPackage {
    pub name: String,
    /// The version that apt would install.
    pub candidate: Option<String>,
    /// Each version and where it comes from; nowhere is the one that is only installed.
    pub offers: Vec<AptCandidate>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AptCandidate {
    pub version: String,
    pub sources: Vec<String>,
}

impl AptPackage {
    /// Where this version comes from.
    pub fn source_of(&self, version: &str) -> Option<&str> {
        let offer = self.offers.iter().find(|offer| offer.version == version)?;
        offer.sources.first().map(String::as_str)
    }

    /// The versions that a source has.
    pub fn versions(&self) -> impl Iterator<Item = &str> {
        let offered = self.offers.iter().filter(|offer| !offer.sources.is_empty());
        offered.map(|offer| offer.version.as_str())
    }
}

/// The packages of an answer.
pub fn policy(answer: &str) -> Vec<AptPackage> {
    let mut known: Vec<AptPackage> = Vec::new();
    for line in answer.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if !line.starts_with(' ') {
            let name = line.strip_suffix(':').map(str::to_owned);
            known.extend(name.map(|name| AptPackage { name, ..AptPackage::default() }));
            continue;
        }
        let Some(package) = known.last_mut() else { continue };
        match words.as_slice() {
            ["Candidate:", version] => {
                package.candidate = Some((*version).to_owned()).filter(|version| version != "(none)");
            }
            ["Installed:" | "Version", ..] => {}
            // A priority of up to four digits is right-aligned below the version.
            [_, source @ ..] if line.starts_with("       ") => {
                let is_source = !source.is_empty() && source != [STATUS_FILE];
                let offer = package.offers.last_mut().filter(|_| is_source);
                if let Some(offer) = offer {
                    offer.sources.push(source.join(" "));
                }
            }
            ["***", version, ..] | [version, _, ..] => {
                package.offers.push(AptCandidate { version: (*version).to_owned(), sources: Vec::new() });
            }
            _ => {}
        }
    }
    known
}

/// What a simulated installation installs besides our packages, each with its version.
pub fn also_installed(simulated: &str) -> Vec<String> {
    let other = |line: &str| {
        let (name, rest) = line.strip_prefix("Inst ")?.split_once(' ')?;
        // The installed version, if any, is in brackets before it.
        let version = rest.split_once('(')?.1.split([' ', ')']).next()?;
        let is_ours = name.split(':').next().is_some_and(|name| PACKAGES.contains(&name));
        (!is_ours).then(|| format!("{name} {version}"))
    };
    simulated.lines().filter_map(other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From apt 3.0 of Debian 13.
    const ANSWER: &str = "\
config-weaver:
  Installed: 0.1.0
  Candidate: 0.2.0
  Version table:
     0.2.0 500
        500 file:/srv/apt stable/main amd64 Packages
       1001 https://example.com/apt stable/main amd64 Packages
 *** 0.1.0 100
        100 /var/lib/dpkg/status
weaver:
  Installed: (none)
  Candidate: (none)
  Version table:
";

    #[test]
    fn versions_and_where_they_come_from() {
        let known = policy(ANSWER);
        let [package, other] = known.as_slice() else { panic!("{known:?}") };
        assert_eq!((package.name.as_str(), package.candidate.as_deref()), ("config-weaver", Some("0.2.0")));
        assert_eq!(package.source_of("0.2.0"), Some("file:/srv/apt stable/main amd64 Packages"));
        assert_eq!(package.offers[0].sources.len(), 2);
        assert_eq!((package.source_of("0.1.0"), package.source_of("0.3.0")), (None, None));
        assert_eq!(package.versions().collect::<Vec<_>>(), ["0.2.0"]);
        assert_eq!((other.candidate.as_deref(), other.offers.len()), (None, 0));
    }

    #[test]
    fn anything_else_is_no_package() {
        for answer in ["", "\n", "N: Unable to locate package weaver\n", "  Candidate: 1\n        500 x\n"] {
            assert_eq!(policy(answer), [], "{answer}");
        }
    }

    #[test]
    fn what_else_is_installed() {
        let simulated = "NOTE: This is only a simulation!\nInst weaver [0.1.0] (0.2.0 localhost, local-deb [arm64])\n\
                         Inst iproute2 [6.1.0-2] (6.1.0-3 Debian:12.9/stable [arm64]) []\n\
                         Inst libcap2-bin:armhf (1:2.66-4 Debian:12.9/stable, Debian-Security:12 [armhf])\n\
                         Inst config-weaver:arm64 [0.1.0] (0.2.0 localhost [arm64])\n\
                         Conf iproute2 (6.1.0-3 Debian:12.9/stable [arm64])\nInst half\n Inst x (1 y)\n";
        assert_eq!(also_installed(simulated), ["iproute2 6.1.0-3", "libcap2-bin:armhf 1:2.66-4"]);
        assert!(also_installed("").is_empty());
    }
}
