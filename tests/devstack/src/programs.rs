//! Where our own programs and the checkout's files are.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};

/// The built programs and the checkout.
#[derive(Clone, Debug)]
pub struct BuiltPrograms {
    bin_dir: PathBuf,
    source: PathBuf,
}

impl BuiltPrograms {
    /// Programs are next to this one unless `bin_dir` is given.
    ///
    /// # Errors
    /// When a directory is not there.
    pub fn find(bin_dir: Option<&Path>, source: &Path) -> Result<Self> {
        let own = env::current_exe().context("cannot tell where this program lies")?;
        let next_to = own.parent().ok_or_else(|| anyhow!("{} has no directory", own.display()))?;
        let absolute =
            |dir: &Path| dir.canonicalize().with_context(|| format!("no directory {}", dir.display()));
        Ok(Self { bin_dir: absolute(bin_dir.unwrap_or(next_to))?, source: absolute(source)? })
    }

    /// Where the programs lie.
    pub fn bin_dir(&self) -> &Path {
        &self.bin_dir
    }

    /// The top of the checkout.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// The tenant that `make up` applies.
    pub fn sample(&self) -> PathBuf {
        self.source.join("deploy/samples/configmapsync.yaml")
    }

    /// The node agent.
    ///
    /// # Errors
    /// When it is not built, with what to type.
    pub fn agent(&self) -> Result<PathBuf> {
        self.built("weaver-node-agent")
    }

    /// The operator.
    ///
    /// # Errors
    /// When it is not built, with what to type.
    pub fn operator(&self) -> Result<PathBuf> {
        self.built("weaver-operator")
    }

    /// The user's tool.
    ///
    /// # Errors
    /// When it is not built, with what to type.
    pub fn weaver(&self) -> Result<PathBuf> {
        self.built("weaver")
    }

    fn built(&self, name: &str) -> Result<PathBuf> {
        let path = self.bin_dir.join(name);
        ensure!(
            path.is_file(),
            "{} is not built; `cargo build --locked -p {name}` builds it",
            path.display()
        );
        Ok(path)
    }
}
