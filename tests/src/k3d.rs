//! A real k3d, where `K3D=DIR` names one: Docker's socket `docker.sock` and the program `k3d` are there. Other programs
//! in it go before those of the machine.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use weaver_devstack::launch::path_with;

use crate::world::given;

/// That k3d and its engine.
pub struct RealK3d {
    dir: PathBuf,
}

/// A cluster; deleted when dropped.
pub struct TestCluster<'a> {
    k3d: &'a RealK3d,
    pub name: String,
    pub port: u16,
}

impl RealK3d {
    /// The one that `make test K3D=DIR` names.
    pub fn given() -> Self {
        let dir = given("K3D").canonicalize().expect("K3D names a directory");
        for name in ["docker.sock", "k3d"] {
            assert!(dir.join(name).exists(), "K3D={} has no {name}", dir.display());
        }
        Self { dir }
    }

    pub fn docker_host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.join("docker.sock")
    }

    /// `PATH` with its programs in front.
    pub fn path(&self) -> OsString {
        path_with(&self.dir)
    }

    /// Runs k3d; whether it succeeded, and what it said.
    pub fn run(&self, arguments: &[&str]) -> (bool, String) {
        let mut k3d = Command::new(self.dir.join("k3d"));
        k3d.args(arguments).env("DOCKER_HOST", self.docker_host()).env("PATH", self.path());
        let output = k3d.stdin(Stdio::null()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    /// Runs k3d, which must succeed.
    #[track_caller]
    pub fn done(&self, arguments: &[&str]) {
        let (done, said) = self.run(arguments);
        assert!(done, "{arguments:?}: {said}");
    }

    /// Creates a cluster by the file that `weaver k3d config` writes into `dir`.
    #[track_caller]
    pub fn cluster(&self, dir: &Path, name: &str, serving: &str, port: u16) -> TestCluster<'_> {
        let name = format!("{name}-{}", std::process::id());
        let mut weaver = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver"));
        weaver.args(["k3d", "config", &name, "--name", serving, "--api-port", &port.to_string()]);
        let output = weaver.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let file = dir.join(format!("{name}.yaml"));
        fs::write(&file, output.stdout).unwrap();
        // Deleted even where it does not come up.
        let cluster = TestCluster { k3d: self, name, port };
        let file = file.to_str().unwrap();
        let switches = ["--kubeconfig-update-default=false", "--kubeconfig-switch-context=false"];
        self.done(&["cluster", "create", "--config", file, switches[0], switches[1]]);
        cluster
    }
}

impl TestCluster<'_> {
    /// As the agent chooses it.
    pub fn chosen(&self) -> String {
        format!("k3d:{}", self.name)
    }

    /// `k3d cluster VERB` of it.
    #[track_caller]
    pub fn k3d(&self, verb: &str) {
        self.k3d.done(&["cluster", verb, &self.name]);
    }
}

impl Drop for TestCluster<'_> {
    fn drop(&mut self) {
        // It may be deleted already.
        let _ = self.k3d.run(&["cluster", "delete", &self.name]);
    }
}
