//! Which API server runs: the one named by `K3S_BIN`, else the pinned k3s,
//! else the testbed.
//!
//! Failure: a wrong `K3S_BIN` and a wrong hash are errors; a download that is
//! unreachable, or lacks curl, is said in one line and the testbed is built.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::download::{Asset, Cache, Fetched, K3sLock, RETRY_AFTER};

/// Where an API server's program comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerOrigin {
    /// Named by the user, with `K3S_BIN`.
    Given,
    /// The k3s of `image/k3s.lock`.
    Pinned,
    /// Built from `tests/testbed/`.
    Testbed,
}

/// The program of an API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerBinary {
    pub path: PathBuf,
    /// Where it comes from.
    pub origin: ServerOrigin,
}

/// Names the program to the tests that `with-server` starts.
pub const TEST_SERVER: &str = "WEAVER_TEST_SERVER_BIN";
/// Its [`ServerOrigin`], in lower case.
pub const TEST_SERVER_ORIGIN: &str = "WEAVER_TEST_SERVER_ORIGIN";

impl ServerBinary {
    /// The program that `with-server` chose, for tests that start servers of their own.
    ///
    /// # Errors
    /// When the variable is not set, with what to type.
    pub fn from_environment() -> Result<Self> {
        let path = env::var_os(TEST_SERVER).ok_or_else(|| {
            anyhow!("{TEST_SERVER} is not set: run `make test`, or `weaver-devstack with-server -- COMMAND`")
        })?;
        let origin = match env::var(TEST_SERVER_ORIGIN).as_deref() {
            Ok("testbed") => ServerOrigin::Testbed,
            Ok("pinned") => ServerOrigin::Pinned,
            _ => ServerOrigin::Given,
        };
        Ok(Self { path: path.into(), origin })
    }

    /// The program that the user names with `K3S_BIN`, if they do.
    ///
    /// # Errors
    /// When it is not a k3s.
    pub fn given() -> Result<Option<Self>> {
        let path = env::var_os("K3S_BIN").filter(|value| !value.is_empty()).map(PathBuf::from);
        path.map(|path| Self { path, origin: ServerOrigin::Given }.checked()).transpose()
    }

    /// Chooses and, where necessary, downloads or builds. `source` is the checkout.
    ///
    /// # Errors
    /// When the named program is not one, a hash is wrong or the build fails.
    pub fn choose(source: &Path) -> Result<Self> {
        if let Some(given) = Self::given()? {
            return Ok(given);
        }
        let lock = K3sLock::read(&source.join("image/k3s.lock"))?;
        let asset = lock.program(env::consts::ARCH);
        let cache = asset
            .as_ref()
            .map(|asset| Ok::<_, anyhow::Error>(Cache::new(&cache_root()?, asset)))
            .transpose()?;
        let facts = ChoiceFacts {
            cached: cache.as_ref().map(Cache::found).transpose()?.flatten(),
            published: asset.is_some(),
            failed: cache.as_ref().and_then(Cache::failed),
        };
        let why = match (decide(facts), asset, cache) {
            (ServerPlan::Use(binary), ..) => return binary.checked(),
            (ServerPlan::Download, Some(asset), Some(cache)) => match fetch(source, &cache, &asset)? {
                Fetched::Stored(path) => {
                    return Self { path, origin: ServerOrigin::Pinned }.checked();
                }
                Fetched::Unreachable(reason) => {
                    format!("k3s {} could not be fetched ({reason})", asset.version)
                }
            },
            (ServerPlan::Testbed(why), ..) => why,
            (ServerPlan::Download, ..) => bail!("there is nothing to download"),
        };
        eprintln!("{why}; the testbed stands in for it (K3S_BIN=/path/to/k3s uses another)");
        Self { path: build_testbed(source, TestbedFor::ThisMachine)?, origin: ServerOrigin::Testbed }
            .checked()
    }

    /// What the program says about itself: `k3s version …`.
    ///
    /// # Errors
    /// When it cannot be started or says something else.
    pub fn version(&self) -> Result<String> {
        let shown = match self.origin {
            ServerOrigin::Given => format!("K3S_BIN={}", self.path.display()),
            ServerOrigin::Pinned | ServerOrigin::Testbed => self.path.display().to_string(),
        };
        let output =
            Command::new(&self.path).arg("--version").stdin(Stdio::null()).output().with_context(|| {
                format!("{shown} cannot be started; it must be a k3s program for this machine")
            })?;
        let text = String::from_utf8_lossy(&output.stdout);
        let first = text.lines().next().unwrap_or_default();
        ensure!(
            output.status.success() && first.starts_with("k3s version "),
            "{shown} is not k3s: `--version` says {first:?} instead of `k3s version …`"
        );
        Ok(first.to_owned())
    }

    fn checked(self) -> Result<Self> {
        self.version()?;
        let path = std::path::absolute(&self.path).with_context(|| self.path.display().to_string())?;
        Ok(Self { path, ..self })
    }
}

/// The cache outside of the work tree.
///
/// # Errors
/// When no variable says where it is.
pub fn cache_root() -> Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let root = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    Ok(root
        .ok_or_else(|| anyhow!("neither XDG_CACHE_HOME nor HOME is set; set one of them"))?
        .join("config-weaver"))
}

/// What the choice depends on.
struct ChoiceFacts {
    cached: Option<PathBuf>,
    published: bool,
    failed: Option<Duration>,
}

#[derive(Debug, PartialEq, Eq)]
enum ServerPlan {
    Use(ServerBinary),
    Download,
    Testbed(String),
}

fn decide(facts: ChoiceFacts) -> ServerPlan {
    match facts {
        ChoiceFacts { cached: Some(path), .. } => {
            ServerPlan::Use(ServerBinary { path, origin: ServerOrigin::Pinned })
        }
        ChoiceFacts { published: false, .. } => {
            ServerPlan::Testbed("k3s is not published for this architecture".to_owned())
        }
        ChoiceFacts { failed: Some(ago), .. } => ServerPlan::Testbed(format!(
            "k3s could not be fetched {} min ago, the next attempt is in {} min",
            ago.as_secs() / 60,
            RETRY_AFTER.saturating_sub(ago).as_secs().div_ceil(60)
        )),
        ChoiceFacts { .. } => ServerPlan::Download,
    }
}

/// Installs what is missing of `needs`, which only this choice turned out to
/// want; whether all of it is there now.
fn have(source: &Path, needs: &[&str], words: Stdio) -> Result<bool> {
    let script = source.join("tests/devstack/prerequisites.sh");
    let mut command = Command::new(&script);
    command.args(needs).stdin(Stdio::null()).stdout(Stdio::null()).stderr(words);
    let status = command.status().with_context(|| format!("cannot start {}", script.display()))?;
    Ok(status.success())
}

/// Fetches a published k3s, and says `Unreachable` also where curl is missing and cannot be installed.
///
/// # Errors
/// When the hash is wrong, or the cache cannot be written.
pub fn fetch(source: &Path, cache: &Cache, asset: &Asset) -> Result<Fetched> {
    // The testbed does without curl: how to install it would only be in the way.
    if have(source, &["curl"], Stdio::null())? {
        cache.fetch(asset)
    } else {
        cache.unreachable("curl is missing".to_owned())
    }
}

/// `build.sh --cached` says with this code that it would have to build.
const NOT_BUILT: i32 = 3;

/// The machine that a testbed is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestbedFor {
    /// The one that builds.
    ThisMachine,
    Arm64,
}

impl TestbedFor {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::ThisMachine => &[],
            Self::Arm64 => &["--arch", "arm64"],
        }
    }

    fn needs(self) -> [&'static str; 2] {
        match self {
            Self::ThisMachine => ["go", "cc"],
            Self::Arm64 => ["go", "cross"],
        }
    }
}

/// Finds the testbed built, or builds it with what that needs. `source` is the checkout.
///
/// # Errors
/// When something is missing or the build fails; the script's own messages stand above.
pub fn build_testbed(source: &Path, target: TestbedFor) -> Result<PathBuf> {
    if let Some(built) = run_build(source, &[target.flags(), &["--cached"]].concat())? {
        return Ok(built);
    }
    let needs = target.needs();
    ensure!(
        have(source, &needs, Stdio::inherit())?,
        "{} is needed and missing; how to get it stands above",
        needs.join(" or ")
    );
    run_build(source, target.flags())?
        .ok_or_else(|| anyhow!("tests/testbed/build.sh did not build; see its messages above"))
}

/// Runs the testbed's build; the path is its only line of output.
fn run_build(source: &Path, arguments: &[&str]) -> Result<Option<PathBuf>> {
    let script = source.join("tests/testbed/build.sh");
    let mut command = Command::new(&script);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().with_context(|| {
        format!("cannot start {}; run this from the top of the checkout", script.display())
    })?;
    if output.status.code() == Some(NOT_BUILT) {
        return Ok(None);
    }
    ensure!(
        output.status.success(),
        "{} failed ({}); see its messages above",
        script.display(),
        output.status
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let path = text.trim();
    ensure!(
        !path.is_empty() && path.lines().count() == 1 && Path::new(path).is_file(),
        "{} must print the path of the program and nothing else, and printed {path:?}",
        script.display()
    );
    Ok(Some(path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> ChoiceFacts {
        ChoiceFacts { cached: None, published: true, failed: None }
    }

    #[test]
    fn the_cached_one_then_the_download_then_the_testbed() {
        let minutes = |n: u64| Some(Duration::from_secs(n * 60));
        assert_eq!(
            decide(ChoiceFacts { cached: Some("c".into()), failed: minutes(1), ..facts() }),
            ServerPlan::Use(ServerBinary { path: "c".into(), origin: ServerOrigin::Pinned })
        );
        assert_eq!(decide(facts()), ServerPlan::Download);
        let ServerPlan::Testbed(why) = decide(ChoiceFacts { failed: minutes(12), ..facts() }) else {
            panic!("no testbed")
        };
        assert!(why.contains("12 min ago") && why.contains("in 48 min"), "{why}");
        let ServerPlan::Testbed(why) = decide(ChoiceFacts { published: false, ..facts() }) else {
            panic!("no testbed")
        };
        assert!(why.contains("architecture"), "{why}");
    }

    #[test]
    fn what_is_not_k3s_is_refused_with_its_name() {
        for (path, wanted) in [("/nowhere/k3s", "cannot be started"), ("/bin/true", "is not k3s")] {
            let binary = ServerBinary { path: path.into(), origin: ServerOrigin::Given };
            let text = format!("{:#}", binary.version().unwrap_err());
            assert!(text.contains(&format!("K3S_BIN={path}")) && text.contains(wanted), "{text}");
        }
    }

    /// A checkout of scripts.
    fn checkout(scripts: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, body) in scripts {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text = format!("#!/bin/sh\ncd {}\n{body}\n", dir.path().display());
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        dir
    }

    #[test]
    fn a_build_that_prints_no_path_is_refused() {
        for (body, wanted) in [("exit 4", "exit status: 4"), ("echo a; echo b", "and nothing else")] {
            let dir = checkout(&[("tests/testbed/build.sh", body)]);
            let text = format!("{:#}", build_testbed(dir.path(), TestbedFor::ThisMachine).unwrap_err());
            assert!(text.contains("tests/testbed/build.sh") && text.contains(wanted), "{text}");
        }
    }

    #[test]
    fn only_a_build_asks_for_go_and_a_compiler() {
        let build = "case \"$*\" in *--cached) test -e built || exit 3;; esac
            echo \"built $*\" >>built; echo $PWD/built";
        let needs = ("tests/devstack/prerequisites.sh", "test ! -e built && echo \"$*\" >>needs");
        for (target, needed, said) in [
            (TestbedFor::ThisMachine, "go cc\n", ["built \n", "built --cached\n"]),
            (TestbedFor::Arm64, "go cross\n", ["built --arch arm64\n", "built --arch arm64 --cached\n"]),
        ] {
            let dir = checkout(&[("tests/testbed/build.sh", build), needs]);
            for lines in [said[0].to_owned(), said.concat()] {
                let path = build_testbed(dir.path(), target).unwrap();
                assert_eq!(std::fs::read_to_string(path).unwrap(), lines);
                assert_eq!(std::fs::read_to_string(dir.path().join("needs")).unwrap(), needed);
            }
        }

        let dir =
            checkout(&[("tests/testbed/build.sh", build), ("tests/devstack/prerequisites.sh", "exit 1")]);
        let text = build_testbed(dir.path(), TestbedFor::ThisMachine).unwrap_err().to_string();
        assert!(text.contains("go or cc is needed and missing"), "{text}");
        assert!(!dir.path().join("built").exists());
    }

    #[test]
    fn without_curl_nothing_is_fetched() {
        let dir = checkout(&[("tests/devstack/prerequisites.sh", "echo much >&2; exit 1")]);
        let asset = Asset { version: "v1".into(), url: "http://127.0.0.1:1".into(), sha256: "0".into() };
        let cache = Cache::new(dir.path(), &asset);
        let fetched = fetch(dir.path(), &cache, &asset).unwrap();
        assert_eq!(fetched, Fetched::Unreachable("curl is missing".to_owned()));
        assert!(cache.failed().is_some(), "apt-get is not asked again and again");
    }
}
