//! An API server: start, wait until it is ready, stop.
//!
//! [`Server`] is a disposable one for tests. Guarantees: a free loopback port
//! of its own, everything in the directory it was given, gone when dropped and
//! when its starter dies. Failure: the last lines of its log and the log's path.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

pub use crate::choice::{ServerBinary, ServerOrigin};
use crate::kubectl::Kubectl;
use crate::launch::{Launch, Lifetime, Started, path_with};
use crate::layout::Layout;
use crate::notices::Notices;
use crate::{files, logs, ports, process, server_files};

/// How long a server may take to become ready; on two busy cores a cold start
/// was seen to take a tenth of it.
pub const START_LIMIT: Duration = Duration::from_mins(2);

/// What k3s logs when it begins to refuse names that are not configured: the filter, and the cache that it reads.
const NAMES_ARE_HELD: [&str; 2] =
    ["Starting dynamiclistener CN filter node controller", "Starting /v1, Kind=Node controller"];

/// How to start a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    dir: PathBuf,
    tls_sans: Vec<String>,
    extra_args: Vec<String>,
    audit: bool,
    port: Option<u16>,
    lifetime: Lifetime,
}

impl ServerOptions {
    /// A disposable server in `dir`, which should be short: Unix socket paths
    /// below it must stay under 108 bytes.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            tls_sans: Vec::new(),
            extra_args: Vec::new(),
            audit: false,
            port: None,
            lifetime: Lifetime::Bound,
        }
    }

    /// Names it is asked to serve (`tls-san` in its configuration file).
    #[must_use]
    pub fn tls_sans<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.tls_sans = names.into_iter().map(Into::into).collect();
        self
    }

    /// Flags after all others.
    #[must_use]
    pub fn extra_args<S: Into<String>>(mut self, flags: impl IntoIterator<Item = S>) -> Self {
        self.extra_args = flags.into_iter().map(Into::into).collect();
        self
    }

    /// Record who touches ConfigMaps, Secrets and tokens, and all that the operator's own account does.
    #[must_use]
    pub fn audit(mut self) -> Self {
        self.audit = true;
        self
    }

    /// This port instead of a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// It outlives its starter; dropping the [`Server`] leaves it running.
    #[must_use]
    pub fn detached(mut self) -> Self {
        self.lifetime = Lifetime::Detached;
        self
    }
}

/// A running API server.
pub struct Server {
    binary: ServerBinary,
    options: ServerOptions,
    layout: Layout,
    port: u16,
    started: Started,
    notices: Notices,
}

impl Server {
    /// Starts a server and waits until it is ready.
    ///
    /// # Errors
    /// When it does not become ready, with the last lines of its log.
    pub fn start(binary: &ServerBinary, options: ServerOptions) -> Result<Self> {
        let mut server = Self::launch(binary, options)?;
        server.wait_served()?;
        Ok(server)
    }

    /// Starts a server and does not wait. The configuration is written first.
    ///
    /// # Errors
    /// When a file cannot be written or the program not be started.
    pub fn launch(binary: &ServerBinary, options: ServerOptions) -> Result<Self> {
        let layout = Layout::create(&options.dir)?;
        let port = options.port.map_or_else(ports::disposable, Ok)?;
        files::replace(&layout.config(), server_files::config(&options.tls_sans).as_bytes(), 0o600)?;
        if options.audit {
            files::replace(&layout.audit_policy(), server_files::audit_policy().as_bytes(), 0o600)?;
        }
        let notices = Notices::open()?;
        let started = begin(binary, &options, &layout, port, &notices)?;
        Ok(Self { binary: binary.clone(), options, layout, port, started, notices })
    }

    /// Waits until the server says that it is ready, and serves.
    ///
    /// # Errors
    /// When it ends or the time is over; with the last lines of its log.
    pub fn wait_ready(&mut self, limit: Duration) -> Result<()> {
        // kubectl is a large program to start: it is asked when the server has
        // said that it is ready, and now and then in case that was missed.
        const ASK_ANYWAY: Duration = Duration::from_secs(10);
        let begun = Instant::now();
        // The testbed has asked itself before it says so, and each test with a server of its own would start kubectl.
        let is_believed =
            self.binary.origin == ServerOrigin::Testbed && self.options.lifetime == Lifetime::Bound;
        let kubectl = self.kubectl();
        let mut asked = begun;
        let mut last_answer = String::new();
        loop {
            if let Some(status) = self.started.ended()? {
                bail!("the API server ended ({status}); {}", self.explain());
            }
            let reported = self.notices.ready(Duration::from_millis(200))?;
            if reported && is_believed {
                return Ok(());
            }
            if reported || asked.elapsed() >= ASK_ANYWAY {
                match kubectl.ready() {
                    Ok(()) => return Ok(()),
                    Err(error) => last_answer = format!(" ({error:#})"),
                }
                asked = Instant::now();
            }
            if begun.elapsed() >= limit {
                bail!(
                    "the API server was not ready after {} s{last_answer}; {}",
                    limit.as_secs(),
                    self.explain()
                );
            }
        }
    }

    /// Stops it and starts it again: same directory, same port. What was
    /// changed in its configuration directory meanwhile is read.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.restart_after_stop()
    }

    /// The same after [`Self::stop`].
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn restart_after_stop(&mut self) -> Result<()> {
        self.start_again()?;
        self.wait_served()
    }

    /// Ready, and with the names that it stays with: until its controllers run, k3s adds each name that a client
    /// asks for to its certificate.
    fn wait_served(&mut self) -> Result<()> {
        self.wait_ready(START_LIMIT)?;
        let holds = |log: String| NAMES_ARE_HELD.iter().all(|line| log.contains(line));
        let is_held = || std::fs::read_to_string(self.log_path()).is_ok_and(holds);
        if self.binary.origin == ServerOrigin::Testbed || process::poll(START_LIMIT, is_held) {
            return Ok(());
        }
        bail!("k3s does not say in its log that it refuses names ({NAMES_ARE_HELD:?}); {}", self.explain())
    }

    /// Starts it after [`Self::stop`], and does not wait.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_again(&mut self) -> Result<()> {
        self.started = begin(&self.binary, &self.options, &self.layout, self.port, &self.notices)?;
        Ok(())
    }

    /// Whether it has not ended.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn runs(&mut self) -> Result<bool> {
        Ok(self.started.ended()?.is_none())
    }

    /// Stops it in an orderly way.
    ///
    /// # Errors
    /// When it does not end.
    pub fn stop(&mut self) -> Result<()> {
        self.started.stop()
    }

    /// Ends it as a power cut would.
    ///
    /// # Errors
    /// When it does not end.
    pub fn kill(&mut self) -> Result<()> {
        self.started.kill()
    }

    /// kubectl with an administrator's rights.
    pub fn kubectl(&self) -> Kubectl {
        Kubectl::new(&self.binary.path, &self.kubeconfig())
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.admin_kubeconfig()
    }

    pub fn data_dir(&self) -> PathBuf {
        self.layout.data()
    }

    /// Its configuration file; drop-ins lie in `config.yaml.d` next to it.
    pub fn config_path(&self) -> PathBuf {
        self.layout.config()
    }

    pub fn log_path(&self) -> PathBuf {
        self.layout.log("server")
    }

    /// Where everything of this stack lies.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub fn binary(&self) -> &ServerBinary {
        &self.binary
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn pid(&self) -> i32 {
        self.started.process.pid
    }

    fn explain(&self) -> String {
        let tail = logs::tail(&self.log_path(), 15);
        // SQLite's own message for a full disk does not say where.
        let full = files::require_space(self.layout.dir(), files::SPACE_NEEDED / 8);
        full.err().map_or_else(|| tail.clone(), |full| format!("{tail}{full:#}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.options.lifetime == Lifetime::Bound {
            // A test has no user to inform. The testbed keeps what it has acknowledged even so, and each of kine's
            // watches takes 10 ms of a processor to end: a second of it for every server of a test.
            let _ = match self.binary.origin {
                ServerOrigin::Testbed => self.started.kill(),
                _ => self.started.stop(),
            };
        }
    }
}

fn begin(
    binary: &ServerBinary,
    options: &ServerOptions,
    layout: &Layout,
    port: u16,
    notices: &Notices,
) -> Result<Started> {
    // What is read early must not be of an earlier start, nor the notice that is waited for.
    files::remove(&layout.admin_kubeconfig())?;
    notices.forget()?;
    let isolated = binary.origin != ServerOrigin::Testbed && nix::unistd::Uid::effective().is_root();
    let private_etc = isolated.then(|| layout.dir().join("k3s/etc"));
    if let Some(mount_point) = &private_etc {
        files::make_dir(mount_point)?;
    }
    // k3s looks for this one even with --disable-agent, and never runs it.
    let host_local = layout.bin().join("host-local");
    files::replace(&host_local, b"#!/bin/sh\nexit 0\n", 0o755)?;
    Launch {
        layout,
        name: "server",
        program: &binary.path,
        arguments: server_files::arguments(layout, port, options.audit, &options.extra_args),
        environment: vec![("PATH", path_with(&layout.bin())), ("NOTIFY_SOCKET", notices.address())],
        log: logs::start(&layout.log("server"))?,
        lifetime: options.lifetime,
        private_etc,
    }
    .start()
}
