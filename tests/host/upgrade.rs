//! `weaver node upgrade` and `rollback` on a real API server of the test's own: a k3s of another version is its
//! own program with another version in its bytes, and one that never starts has another name for a setting.

mod own_server {
    use std::env::consts::ARCH;
    use std::fs::{self, File};
    use std::io::{self, Read as _, Write as _};
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};
    use std::sync::{Arc, Mutex};

    use tempfile::TempDir;
    use weaver_devstack::choice::{self, ServerOrigin, TestbedFor};
    use weaver_devstack::files;
    use weaver_devstack::server::{Server, ServerBinary, ServerOptions};
    use weaver_diagnostics::k3s_upgrade::release;
    use weaver_tests::agent::{send, until};
    use weaver_tests::once::once;
    use weaver_tests::systemd::Systemd;
    use weaver_tests::world::given;

    /// A setting that every server here has gets another name, which no configuration knows.
    const NEVER_READY: &str = "s/disable-agent/disable-agenx/g";

    struct Scene {
        /// Ends the server when it is dropped.
        _server: Arc<Mutex<Server>>,
        systemd: Systemd,
        /// The installed program.
        k3s: PathBuf,
        /// What it says of itself.
        version: String,
        dir: TempDir,
    }

    impl Scene {
        /// A server with a program of its own, and a `weaver-node-agent` in the PATH that knows where all is.
        fn start() -> Self {
            let dir = tempfile::tempdir_in(files::scratch()).unwrap();
            let k3s = dir.path().join("k3s");
            fs::copy(testbed(), &k3s).unwrap();
            let binary = ServerBinary { path: k3s.clone(), origin: ServerOrigin::Testbed };
            let options = ServerOptions::new(dir.path().join("stack")).tls_sans(["pi.example"]);
            let server = Server::start(&binary, options).unwrap();
            let flags = [
                ("--k3s-config", server.config_path()),
                ("--k3s-data-dir", server.data_dir()),
                ("--k3s-unit", dir.path().join("no-unit")),
                ("--admin-kubeconfig", server.kubeconfig()),
                ("--api-address", format!("127.0.0.1:{}", server.port()).into()),
                ("--state-dir", dir.path().join("state")),
                ("--program", k3s.clone()),
                ("--systemctl", dir.path().join("systemctl")),
            ];
            let flags: Vec<_> = flags.map(|(flag, value)| format!("{flag} {}", value.display())).into();
            let agent = format!(
                "#!/bin/sh\nverb=$1; shift\nexec {} \"$verb\" {} --probe-timeout 3 --settle 1 $EXTRA \"$@\"\n",
                given("WEAVER_TEST_BIN_DIR").join("weaver-node-agent").display(),
                flags.join(" ")
            );
            write_program(&dir.path().join("weaver-node-agent"), &agent);
            let server = Arc::new(Mutex::new(server));
            let systemd = Systemd::of(&server, dir.path());
            let version = version(&k3s);
            Self { _server: server, systemd, k3s, version, dir }
        }

        fn file(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn weaver(&self, words: &[&str]) -> Command {
            let mut weaver = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver"));
            let path = std::env::var("PATH").unwrap();
            weaver.env("PATH", format!("{}:{path}", self.dir.path().display()));
            weaver.arg("node").args(words).stdin(Stdio::null());
            weaver
        }

        /// The exit code, and what was said.
        fn node(&self, words: &[&str]) -> (Option<i32>, String) {
            let output = self.weaver(words).output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
            (output.status.code(), said)
        }

        /// A k3s of the next patch version in a directory of a release's, changed further by this word of sed.
        fn another(&self, change: &str) -> (PathBuf, String) {
            let name = if change.is_empty() { "release" } else { "release-never-ready" };
            let made = once(name, |directory| make_release(directory, &self.version, change));
            let files = release::files(ARCH).unwrap();
            let directory = self.file("release");
            fs::create_dir_all(&directory).unwrap();
            for file in [files.program, files.sums] {
                fs::copy(made.join(file), directory.join(file)).unwrap();
            }
            let program = directory.join(files.program);
            let version = version(&program);
            assert_ne!(version, self.version);
            (program, version)
        }

        /// What the cluster says that it runs.
        fn served_version(&self) -> String {
            let kubeconfig = self.file("stack").join("admin.kubeconfig");
            let output = Command::new(&self.k3s)
                .args(["kubectl", "get", "--raw", "/version", "--kubeconfig"])
                .arg(kubeconfig)
                .output()
                .unwrap();
            let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            answer["gitVersion"].as_str().unwrap().to_owned()
        }

        /// Waits until the new program is installed and, since it never gets ready, its proof fails.
        fn is_in_vain(&self) {
            until("the new program is started", || {
                let calls = fs::read_to_string(self.file("calls")).unwrap_or_default();
                (calls.contains("start"), calls)
            });
        }

        #[track_caller]
        fn runs(&self, installed: &str, previous: Option<&str>) {
            assert_eq!(
                (version(&self.k3s), self.served_version()),
                (installed.to_owned(), installed.to_owned())
            );
            let kept = self.file("k3s.previous");
            assert_eq!(kept.exists().then(|| version(&kept)).as_deref(), previous);
            assert!(!self.file("k3s.new").exists());
        }
    }

    /// Sed and SHA-256 take seconds for a program of this size.
    fn make_release(directory: &Path, version: &str, change: &str) {
        let files = release::files(ARCH).unwrap();
        let release = version.split_once('+').unwrap().0;
        let (rest, last) = release.split_at(release.len() - 1);
        let next = if last == "9" { 8 } else { last.parse::<u8>().unwrap() + 1 };
        fs::create_dir_all(directory).unwrap();
        let program = directory.join(files.program);
        let script = format!("s/{}/{rest}{next}/g;{change}", release.replace('.', "[.]"));
        let mut sed = Command::new("sed");
        sed.env("LC_ALL", "C").arg(script).arg(testbed()).stdout(File::create(&program).unwrap());
        assert!(sed.status().unwrap().success());
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let sums = Command::new("sha256sum").arg(files.program).current_dir(directory).output().unwrap();
        fs::write(directory.join(files.sums), sums.stdout).unwrap();
    }

    /// Of a real k3s only the shell around it would change its version.
    fn testbed() -> PathBuf {
        let binary = ServerBinary::from_environment().unwrap();
        if binary.origin == ServerOrigin::Testbed {
            return binary.path;
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        choice::build_testbed(source, TestbedFor::ThisMachine).unwrap()
    }

    fn version(program: &Path) -> String {
        let output = Command::new(program).arg("--version").output().unwrap();
        String::from_utf8(output.stdout).unwrap().split(' ').nth(2).unwrap().to_owned()
    }

    fn write_program(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Serves the files of a directory by their last name, whatever the directory asked for; where.
    fn releases(directory: PathBuf) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let mut asked = [0; 1024];
                let count = stream.read(&mut asked).unwrap();
                let asked = String::from_utf8_lossy(&asked[..count]).into_owned();
                let path = asked.split(' ').nth(1).unwrap_or_default();
                let name = path.rsplit('/').next().unwrap_or_default();
                let file = File::open(directory.join(name)).ok().filter(|_| path.contains("%2B"));
                let (status, length) = file
                    .as_ref()
                    .map_or(("404 Not Found", 0), |file| ("200 OK", file.metadata().unwrap().len()));
                let head =
                    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
                let sent = stream.write_all(head.as_bytes());
                // Who has seen enough hangs up.
                let _ = sent.and_then(|()| file.map_or(Ok(0), |mut file| io::copy(&mut file, &mut stream)));
            }
        });
        address
    }

    #[test]
    fn a_release_is_fetched_proven_and_taken_back() {
        let scene = Scene::start();
        let old = scene.version.clone();
        let (program, new) = scene.another("");
        let path = program.to_str().unwrap();

        let (code, said) = scene.node(&["upgrade", "--k3s", path, "--dry-run"]);
        assert_eq!((code, scene.systemd.calls().as_str()), (Some(0), ""), "{said}");
        assert!(
            said.contains(&format!("would upgrade from {old} to {new}")) && said.contains("pi.example"),
            "{said}"
        );
        assert!(said.ends_with("Nothing was changed.\n"), "{said}");
        scene.runs(&old, None);
        assert!(!scene.file("state").exists(), "a dry run writes nothing");

        let address = releases(scene.file("release"));
        let fetched =
            scene.weaver(&["upgrade", "--k3s", &new]).env("EXTRA", format!("--releases {address}")).output();
        let fetched = fetched.unwrap();
        let said = String::from_utf8(fetched.stdout).unwrap() + &String::from_utf8(fetched.stderr).unwrap();
        assert_eq!(
            (fetched.status.code(), scene.systemd.calls().as_str()),
            (Some(0), "stop start"),
            "{said}"
        );
        assert!(
            said.contains(&format!("k3s {new} is installed and verified")) && said.contains("pi.example"),
            "{said}"
        );
        scene.runs(&new, Some(&old));

        let (code, said) = scene.node(&["upgrade", "--k3s", path]);
        assert_eq!((code, scene.systemd.calls().as_str()), (Some(0), ""), "{said}");
        assert!(said.contains(&format!("k3s is already {new}")), "{said}");

        let (code, said) = scene.node(&["rollback"]);
        assert_eq!((code, scene.systemd.calls().as_str()), (Some(0), "stop start"), "{said}");
        scene.runs(&old, Some(&new));
    }

    #[test]
    fn a_k3s_that_never_gets_ready_goes_back_by_itself() {
        let scene = Scene::start();
        let old = scene.version.clone();
        let (program, new) = scene.another(NEVER_READY);
        let (code, said) = scene.node(&["upgrade", "--k3s", program.to_str().unwrap(), "--wait", "20"]);
        assert_eq!((code, scene.systemd.calls().as_str()), (Some(12), "stop start stop start"), "{said}");
        assert!(
            said.contains(&format!("k3s {new} could not be verified: after 20 s: k3s.service is activating")),
            "{said}"
        );
        assert!(
            said.contains(&format!("k3s {old} is in place again and verified"))
                && said.contains("pi.example"),
            "{said}"
        );
        scene.runs(&old, Some(&old));
    }

    #[test]
    fn what_a_kill_cuts_off_is_finished_by_the_next_run() {
        let scene = Scene::start();
        let old = scene.version.clone();
        let (program, new) = scene.another(NEVER_READY);
        let words = ["upgrade", "--k3s", program.to_str().unwrap(), "--wait", "20"];
        let mut killed = scene.weaver(&words).stdout(Stdio::null()).spawn().unwrap();
        scene.is_in_vain();
        killed.kill().unwrap();
        killed.wait().unwrap();
        assert_eq!((version(&scene.k3s), scene.systemd.calls().as_str()), (new.clone(), "stop start"));

        let (code, said) = scene.node(&["rollback"]);
        assert_eq!((code, scene.systemd.calls().as_str()), (Some(0), "stop start"), "{said}");
        assert!(said.contains("was interrupted") && said.contains("is installed but failed"), "{said}");
        scene.runs(&old, Some(&old));
    }

    #[test]
    fn ctrl_c_has_it_go_back_and_a_terminal_that_is_closed_ends_nothing() {
        let scene = Scene::start();
        let old = scene.version.clone();
        let (program, _) = scene.another(NEVER_READY);
        let mut weaver = scene.weaver(&["upgrade", "--k3s", program.to_str().unwrap()]);
        let weaver = weaver.stdout(Stdio::piped()).spawn().unwrap();
        scene.is_in_vain();
        send(weaver.id().into(), "HUP");
        send(weaver.id().into(), "INT");
        let output = weaver.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            (output.status.code(), scene.systemd.calls().as_str()),
            (Some(12), "stop start stop start"),
            "{said}"
        );
        assert!(said.contains("could not be verified: SIGINT came"), "{said}");
        scene.runs(&old, Some(&old));
    }

    #[test]
    fn what_speaks_against_it_is_reported_and_nothing_is_touched() {
        let scene = Scene::start();
        let (program, next) = scene.another("");
        let path = program.to_str().unwrap().to_owned();
        let script = scene.file("script");
        write_program(&script, "#!/bin/sh\necho 'k3s version v1.36.9+k3s1 (a)'\n");
        let script = script.to_str().unwrap();
        let hash = "a".repeat(64);
        for (words, want) in [
            (&["--k3s", script][..], &["it is a script, not a program", "--sha256 HEX"][..]),
            (&["--k3s", &path, "--sha256", &hash], &["should have aaaa", "do not use it"]),
            (&["--k3s", "v1.99.0+k3s1"], &["is more than one minor version: upgrade to v1."]),
            (&["--k3s", "v1.9.0+k3s1"], &["the older one may not read the present database"]),
        ] {
            let words: Vec<_> = ["upgrade"].iter().chain(words).copied().collect();
            let (code, said) = scene.node(&words);
            assert_eq!((code, scene.systemd.calls().as_str()), (Some(10), ""), "{said}");
            assert!(want.iter().all(|want| said.contains(want)), "{said}");
            assert!(said.ends_with("Nothing was changed.\n"), "{said}");
        }
        // Closed, and so unreachable.
        let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let unreachable = format!("--releases http://{nowhere}");
        let output = scene.weaver(&["upgrade", "--k3s", &next]).env("EXTRA", unreachable).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        for want in [
            &format!("cannot fetch http://{nowhere}/"),
            "sha256sum-",
            "copy both here",
            "nothing was changed",
        ] {
            assert!(said.contains(want), "{said}");
        }
        // The release's checksums reveal a file that was changed in transit.
        let mut file = File::options().append(true).open(&program).unwrap();
        file.write_all(b"x").unwrap();
        let (code, said) = scene.node(&["upgrade", "--k3s", &path]);
        assert_eq!(code, Some(10), "{said}");
        assert!(said.contains("has SHA-256"), "{said}");
        let (code, said) = scene.node(&["rollback"]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("there is no earlier k3s at"), "{said}");
        scene.runs(&scene.version, None);
    }
}
