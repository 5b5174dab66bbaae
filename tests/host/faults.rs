//! docs/tutorials/faults.md, done as it is there: each fault is induced on a stack of its own, named by its
//! code, cured by what was printed, and undone.

mod own_server {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Output, Stdio};
    use std::time::{Duration, Instant};

    use serde_json::Value;
    use tempfile::TempDir;
    use weaver_devstack::{files, ports};
    use weaver_tests::world::given;

    const PATIENCE: Duration = Duration::from_secs(150);
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/tutorials/faults.md");

    /// One fault of the page.
    #[derive(Default)]
    struct PageFault {
        code: String,
        title: String,
        induce: String,
        remedy: String,
        /// Words in capitals and what they stand for here.
        filled_in: Vec<(String, String)>,
        undo: String,
    }

    fn faults(page: &str) -> Vec<PageFault> {
        let mut faults: Vec<PageFault> = Vec::new();
        let mut lines = page.lines();
        while let Some(line) = lines.next() {
            if let Some((code, title)) = line.strip_prefix("## ").and_then(|line| line.split_once(": ")) {
                faults.push(PageFault {
                    code: code.to_owned(),
                    title: title.to_owned(),
                    ..PageFault::default()
                });
            }
            let Some(what) = line.strip_prefix("```sh ") else { continue };
            let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
            let mut words = what.split(' ');
            let fault = faults.last_mut().unwrap();
            let field = match words.next().unwrap() {
                "induce" => &mut fault.induce,
                "remedy" => &mut fault.remedy,
                "undo" => &mut fault.undo,
                other => panic!("{}: a block called {other}", fault.code),
            };
            *field = block.join("\n");
            fault
                .filled_in
                .extend(words.map(|word| word.split_once('=').unwrap()).map(|(a, b)| (a.into(), b.into())));
        }
        faults
    }

    /// A stack of `make up`; ended when dropped.
    struct Stack {
        dir: TempDir,
        port: u16,
        /// What this machine has besides, such as no default route.
        of_the_host: Vec<Value>,
    }

    impl Stack {
        fn up() -> Self {
            let mut stack = Self {
                dir: tempfile::tempdir_in(files::scratch()).unwrap(),
                port: ports::disposable().unwrap(),
                of_the_host: Vec::new(),
            };
            let output = stack.devstack("up");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            fs::copy(stack.path("admin.kubeconfig"), stack.path("laptop.yaml")).unwrap();
            let of_host = |code: &Value| code.as_str().unwrap().starts_with(['H', 'N']);
            stack.of_the_host =
                stack.doctor().into_iter().map(|finding| finding["code"].clone()).filter(of_host).collect();
            stack
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn devstack(&self, verb: &str) -> Output {
            let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
            let mut command = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver-devstack"));
            command.arg("--run-dir").arg(self.dir.path()).arg("--source").arg(repository).arg(verb);
            // The stack that the tests run in is none of its business.
            command.env("WEAVER_PORT", self.port.to_string()).env_remove("WEAVER_RUN_DIR");
            command.stdin(Stdio::null()).output().unwrap()
        }

        /// What a user types, with the laptop's kubeconfig.
        fn shell(&self, script: &str) -> (bool, String) {
            let whole = format!(
                ". {}\nexport KUBECONFIG={}\nset -e\n{script}",
                self.path("env").display(),
                self.path("laptop.yaml").display()
            );
            let output = Command::new("sh")
                .args(["-c", &whole])
                .env("DOCKER_HOST", "unix:///nonexistent")
                .stdin(Stdio::null())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            (output.status.success(), said)
        }

        fn typed(&self, script: &str) {
            let (done, said) = self.shell(script);
            assert!(done, "{script}\n{said}");
        }

        /// The findings that are not fine.
        fn doctor(&self) -> Vec<Value> {
            let (_, said) = self.shell("weaver doctor -o json || :");
            let report: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
            report["findings"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|finding| finding["severity"] != "ok" && !self.of_the_host.contains(&finding["code"]))
                .cloned()
                .collect()
        }

        fn until(&self, what: &str, says: impl Fn(&[Value]) -> bool) -> Vec<Value> {
            let since = Instant::now();
            loop {
                let findings = self.doctor();
                if says(&findings) {
                    return findings;
                }
                assert!(since.elapsed() < PATIENCE, "no {what}: {findings:#?}");
                // A look takes a good part of a second of a processor, and one of the faults is seen after a minute.
                let pause = since.elapsed() / 5;
                std::thread::park_timeout(pause.clamp(Duration::from_secs(2), Duration::from_secs(5)));
            }
        }

        /// As it is when its words are read.
        fn plain(&self, line: &str, fault: &PageFault) -> String {
            let dir = self.dir.path().display().to_string();
            let line =
                line.replace("$WEAVER_STACK", &dir).replace("$KUBECONFIG", &format!("{dir}/laptop.yaml"));
            let filled_in = fault.filled_in.iter();
            filled_in.fold(line, |line, (word, meant)| line.replace(word, meant)).replace('"', "")
        }

        fn try_it(&self, fault: &PageFault) {
            let PageFault { code, title, induce, remedy, undo, .. } = fault;
            self.typed(induce);
            let findings = self
                .until(&format!("{code} ({title})"), |findings| findings.iter().any(|f| f["code"] == *code));
            let printed: Vec<_> = findings
                .iter()
                .filter(|finding| finding["code"] == *code)
                .flat_map(|finding| finding["remedy"]["commands"].as_array().into_iter().flatten())
                .map(|command| self.plain(command.as_str().unwrap(), fault))
                .collect();
            for line in remedy.lines() {
                let line = self.plain(line, fault);
                assert!(
                    printed.iter().any(|printed| line.contains(printed)),
                    "{code}: {line} is not in {printed:#?}"
                );
            }
            let filled_in = fault.filled_in.iter();
            self.typed(&filled_in.fold(remedy.clone(), |line, (word, meant)| line.replace(word, meant)));
            self.until(&format!("cure of {code}"), <[Value]>::is_empty);
            self.typed(undo);
            self.until(&format!("health after {code}"), <[Value]>::is_empty);
        }
    }

    impl Drop for Stack {
        fn drop(&mut self) {
            let _ = self.devstack("down");
        }
    }

    #[test]
    fn each_fault_is_named_by_its_code_and_what_is_printed_cures_it() {
        let faults = faults(&fs::read_to_string(PAGE).unwrap());
        assert!(faults.len() >= 10, "{}", faults.len());
        let stack = Stack::up();
        stack.until("health", <[Value]>::is_empty);
        for fault in &faults {
            let since = Instant::now();
            stack.try_it(fault);
            println!("{} {}: {:.0?}", fault.code, fault.title, since.elapsed());
        }
    }
}
