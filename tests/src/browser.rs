//! Headless Chromium, driven by `WebDriver`: Debian's `chromium` and `chromium-driver`.
//!
//! What a page shows, and whether it can be read, reached by keyboard and used without JavaScript, is asked
//! of the browser itself; what is wrong for people with other eyes or none is found by axe-core.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::poll::{SOON, eventually};
use crate::tools;

/// Of the version in tests/devstack/tools.sh.
const AXE: &str = "axe-core-4.14.1/axe.min.js";
/// Where pictures of the pages are put, by name and look.
const SCREENSHOTS: &str = "WEAVER_SCREENSHOTS";
/// Those of the documentation, each next to the text of its page.
const PICTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/images");
/// The key Tab, as `WebDriver` writes it.
const TAB: &str = "\u{e004}";
/// Directories of browsers: the number of the process that has it follows.
const HOME: &str = "weaver-browser-";
/// A page that says whether scripts run.
const SCRIPTED: &str =
    "data:text/html,<p>off</p><script>document.querySelector('p').textContent='on'</script>";
/// What the keyboard has to reach.
const REACHED: &str = "a[href], button, input:not([type=hidden]), textarea, summary, [tabindex='0']";

/// How a page is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub name: &'static str,
    /// The colours that the user prefers.
    pub scheme: &'static str,
    /// CSS pixels.
    pub width: u32,
}

/// In light, in dark, and on a small phone.
pub const LOOKS: [Look; 3] = [
    Look { name: "light", scheme: "light", width: 1_280 },
    Look { name: "dark", scheme: "dark", width: 1_280 },
    Look { name: "phone", scheme: "light", width: 360 },
];

/// A browser of the test's own, which ends with it.
pub struct Browser {
    http: Client<HttpConnector, Full<Bytes>>,
    /// Address and port of the driver.
    driver: String,
    /// Path of the session.
    session: String,
    _child: Child,
    /// Profile and scratch files.
    _home: TempDir,
}

impl Browser {
    pub async fn start() -> Self {
        clear();
        let home =
            tempfile::Builder::new().prefix(&format!("{HOME}{}-", std::process::id())).tempdir().unwrap();
        // A test that is killed takes its driver with it, and the pipe below the browser with the driver.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "chromedriver"]);
        command.arg("--port=0").env("TMPDIR", home.path()).env("HOME", home.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child =
            command.spawn().expect("setpriv of util-linux, by which chromedriver is started, is installed");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let driver = loop {
            let line = timeout(SOON, lines.next_line()).await.unwrap().unwrap();
            let line = line.expect("chromedriver: `tests/devstack/prerequisites.sh browser` installs it");
            if let Some((_, port)) = line.split_once("successfully on port ") {
                break format!("127.0.0.1:{}", port.trim_end_matches('.'));
            }
        };
        let http = Client::builder(TokioExecutor::new()).build_http();
        let mut browser = Self { http, driver, session: "/session".into(), _child: child, _home: home };
        // Its sandbox needs a user, which CI has not; what it opens is ours.
        let is_root =
            std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        let sandbox = is_root.then_some("--no-sandbox");
        let options = [
            "--headless=new",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1280,900",
            "--remote-debugging-pipe",
        ];
        let options: Vec<&str> = options.into_iter().chain(sandbox).collect();
        let session = browser
            .ask(
                Method::POST,
                "",
                &json!({"capabilities": {"alwaysMatch": {
                    "goog:chromeOptions": {"args": options}, "goog:loggingPrefs": {"browser": "ALL"}}}}),
            )
            .await;
        browser.session = format!("/session/{}", session["sessionId"].as_str().unwrap());
        let axe = std::fs::read_to_string(tools::path(AXE)).unwrap();
        browser.devtools("Page.addScriptToEvaluateOnNewDocument", &json!({"source": axe})).await;
        browser
    }

    /// A command of `WebDriver`; its answer.
    async fn ask(&self, method: Method, command: &str, parameters: &Value) -> Value {
        let answer = self.attempt(method, command, parameters).await;
        answer.unwrap_or_else(|error| panic!("{command} {parameters}: {error:#}"))
    }

    /// The same where an error is an answer, too.
    async fn attempt(&self, method: Method, command: &str, parameters: &Value) -> Result<Value, Value> {
        let uri = format!("http://{}{}{command}", self.driver, self.session);
        let body = if method == Method::POST { parameters.to_string() } else { String::new() };
        let request = Request::builder().method(method).uri(&uri).body(Full::from(body)).unwrap();
        let answer = timeout(SOON, self.http.request(request)).await.unwrap().unwrap();
        let body = timeout(SOON, answer.into_body().collect()).await.unwrap().unwrap().to_bytes();
        let mut answer: Value = serde_json::from_slice(&body).unwrap();
        let value = answer["value"].take();
        if value["error"].is_null() { Ok(value) } else { Err(value) }
    }

    /// A command of Chromium's own protocol.
    async fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.ask(Method::POST, "/goog/cdp/execute", &json!({"cmd": command, "params": parameters})).await
    }

    /// Opens an address, and waits until it is loaded.
    pub async fn open(&self, address: &str) {
        self.ask(Method::POST, "/url", &json!({"url": address})).await;
    }

    /// The address that is shown.
    pub async fn address(&self) -> String {
        self.ask(Method::GET, "/url", &Value::Null).await.as_str().unwrap().to_owned()
    }

    /// What a function of this body returns or promises in the page.
    pub async fn run(&self, body: &str) -> Value {
        self.ask(Method::POST, "/execute/sync", &json!({"script": body, "args": []})).await
    }

    /// The text that a user sees.
    pub async fn text(&self) -> String {
        self.run("return document.body.innerText").await.as_str().unwrap().to_owned()
    }

    /// Waits until a user sees these words.
    pub async fn shows(&self, words: &str) -> String {
        eventually(&format!("the page shows {words:?}"), || async {
            let text = self.text().await;
            if text.contains(words) { Ok(text) } else { Err(text) }
        })
        .await
    }

    /// Clicks a link or a button of this text, as a mouse would; waits until there is one, and for the page
    /// that it opens.
    pub async fn click(&self, text: &str) {
        let path = format!("//*[self::a or self::button][normalize-space()=\"{text}\"]");
        let parameters = json!({"using": "xpath", "value": path});
        eventually(&format!("there is {text:?} to click"), || async {
            let found = self.ask(Method::POST, "/elements", &parameters).await;
            let Some(element) = found[0].as_object().and_then(|element| element.values().next()) else {
                return Err(json!(self.text().await));
            };
            let click = format!("/element/{}/click", element.as_str().unwrap());
            // A live page may have replaced it meanwhile.
            self.attempt(Method::POST, &click, &json!({})).await
        })
        .await;
    }

    /// Presses Tab so often.
    async fn tab(&self, times: usize) {
        let key = |kind: &str| json!({"type": kind, "value": TAB});
        let keys: Vec<Value> = (0..times).flat_map(|_| [key("keyDown"), key("keyUp")]).collect();
        let actions = json!({"actions": [{"type": "key", "id": "keyboard", "actions": keys}]});
        self.ask(Method::POST, "/actions", &actions).await;
    }

    /// What the keyboard does not reach by Tab in this page, or shows no focus when it is reached. A live page changes
    /// meanwhile, when others work at the same server; what is really out of reach is so each time.
    pub async fn not_reached(&self) -> Vec<String> {
        let mut missed = self.not_reached_once().await;
        for _ in 0..3 {
            if missed.is_empty() {
                break;
            }
            let again = self.not_reached_once().await;
            missed.retain(|one| again.contains(one));
        }
        missed
    }

    async fn not_reached_once(&self) -> Vec<String> {
        let count = self
            .run(&format!(
                "document.activeElement.blur();
                 window.getSelection().removeAllRanges();
                 // By what it is for: a live page may have replaced the element itself, and what it says of others.
                 window.keyOf = (one) => one.tagName + ' ' +
                   (one.getAttribute('href') || one.name || one.ariaLabel || one.textContent);
                 window.reached = new Map();
                 document.addEventListener('focusin', (event) => {{
                   const style = getComputedStyle(event.target);
                   const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
                   window.reached.set(window.keyOf(event.target), seen);
                 }});
                 window.wanted = () => [...document.querySelectorAll(\"{REACHED}\")]
                   .filter((one) => one.checkVisibility()).map(window.keyOf);
                 window.began = new Set(window.wanted());
                 return window.wanted().length"
            ))
            .await;
        let count = usize::try_from(count.as_u64().unwrap()).unwrap();
        assert!(count > 0, "there is nothing to reach");
        self.tab(count + 1).await;
        let missed = self
            .run(
                "return window.wanted().filter((key) => window.began.has(key) && window.reached.get(key) !== true)
                   .map((key) => (window.reached.has(key) ? 'no focus is seen: ' : 'not reached: ') + key)",
            )
            .await;
        strings(&missed)
    }

    /// Looks at pages in this way from now on.
    pub async fn look(&self, look: Look) {
        let scheme = json!([{"name": "prefers-color-scheme", "value": look.scheme}]);
        self.devtools("Emulation.setEmulatedMedia", &json!({"features": scheme})).await;
        let is_phone = look.width < 600;
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": look.width, "height": 900, "deviceScaleFactor": 1, "mobile": is_phone}),
        )
        .await;
    }

    /// What of the page that is shown is not as in this look: that it was not taken over, or the page takes no notice.
    pub async fn not_as_in(&self, look: Look) -> Vec<String> {
        let seen = self
            .run(
                "const ground = getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number);
                 return [matchMedia('(prefers-color-scheme: dark)').matches,
                         (ground[0] + ground[1] + ground[2]) / 3 < 128, window.innerWidth]",
            )
            .await;
        let is_dark = look.scheme == "dark";
        let expected = json!([is_dark, is_dark, look.width]);
        if seen == expected { Vec::new() } else { vec![format!("{seen} instead of {expected}")] }
    }

    /// Switches JavaScript of pages on or off, and sees that it is.
    pub async fn runs_scripts(&self, runs: bool) {
        self.devtools("Emulation.setScriptExecutionDisabled", &json!({"value": !runs})).await;
        self.open(SCRIPTED).await;
        assert_eq!(self.text().await.trim(), if runs { "on" } else { "off" });
    }

    /// How far the page is wider than the screen, in pixels.
    pub async fn overflow(&self) -> i64 {
        let script = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
        self.run(script).await.as_i64().unwrap()
    }

    /// What axe-core finds in the page that is shown: a line for each element.
    pub async fn violations(&self) -> Vec<String> {
        let found = self
            .run(
                "return axe.run(document, {resultTypes: ['violations']}).then((result) =>
                   result.violations.flatMap((rule) => rule.nodes.map((node) =>
                     rule.id + ': ' + node.html + ' — ' + node.failureSummary)))",
            )
            .await;
        strings(&found)
    }

    /// What the browser has written to its console since this was last asked: errors of scripts, what the
    /// policy forbade, and answers that failed.
    pub async fn console(&self) -> Vec<String> {
        let lines = self.ask(Method::POST, "/se/log", &json!({"type": "browser"})).await;
        lines.as_array().unwrap().iter().map(|line| line["message"].as_str().unwrap().to_owned()).collect()
    }

    /// The same for a picture of the documentation, next to which its text is kept: it is of this build as long as the page
    /// says the same.
    pub async fn picture(&self, name: &str, replaced: &[(String, &str)]) {
        self.screenshot(name, replaced).await;
        let mut text = self.text().await;
        for (from, to) in replaced {
            text = text.replace(from, to);
        }
        let text = plain(&text);
        if let Some(directory) = std::env::var_os(SCREENSHOTS).map(PathBuf::from) {
            std::fs::write(directory.join(format!("{name}.txt")), text).unwrap();
            return;
        }
        let kept = PathBuf::from(PICTURES).join(format!("{name}.txt"));
        let kept = std::fs::read_to_string(&kept).unwrap_or_default();
        assert_eq!(
            text, kept,
            "docs/images/{name}.png is of another build: run this test with {SCREENSHOTS}=docs/images, and look at it"
        );
    }

    /// Takes a picture of the page, where someone wants one: with these replacements of what only this run
    /// has, such as the names of its namespaces. The page is not to be used after that.
    pub async fn screenshot(&self, name: &str, replaced: &[(String, &str)]) {
        let Some(directory) = std::env::var_os(SCREENSHOTS).map(PathBuf::from) else { return };
        std::fs::create_dir_all(&directory).unwrap();
        let script = format!(
            "window.scrollTo(0, 0);
             const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
             while (texts.nextNode()) {{
               for (const [from, to] of {}) {{
                 texts.currentNode.data = texts.currentNode.data.replaceAll(from, to);
               }}
             }}",
            json!(replaced)
        );
        self.run(&script).await;
        let picture = self.ask(Method::GET, "/screenshot", &Value::Null).await;
        let picture = STANDARD.decode(picture.as_str().unwrap()).unwrap();
        std::fs::write(directory.join(format!("{name}.png")), picture).unwrap();
    }
}

impl Drop for Browser {
    /// Ends Chromium, which would outlive its driver.
    fn drop(&mut self) {
        let Ok(mut stream) = TcpStream::connect(&self.driver) else { return };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
        let (session, driver) = (&self.session, &self.driver);
        let request = format!("DELETE {session} HTTP/1.1\r\nhost: {driver}\r\nconnection: close\r\n\r\n");
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.read(&mut [0; 1]);
    }
}

/// Removes the directories of browsers whose test was killed.
fn clear() {
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(HOME)?.split('-').next());
        if process.is_some_and(|process| !PathBuf::from("/proc").join(process).exists()) {
            // Another test may do the same.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Without what differs from run to run: numbers, and how long ago something was.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        // As the page shows the last seconds: in the line of a state, of a condition and of an event.
        let age = line.strip_suffix(" now").filter(|line| line.starts_with("Not ready "));
        let line = age.map_or_else(|| line.replace("\tnow", "\t0 s ago"), |age| format!("{age} 0 s ago"));
        let line = line.strip_prefix("now ").map_or_else(|| line.clone(), |event| format!("0 s ago {event}"));
        let mut was_digit = false;
        for letter in line.chars() {
            if !(letter.is_ascii_digit() && was_digit) {
                plain.push(if letter.is_ascii_digit() { '0' } else { letter });
            }
            was_digit = letter.is_ascii_digit();
        }
        plain.push('\n');
    }
    for unit in ["0 min ", "0 h ", "0 days "] {
        plain = plain.replace(unit, "0 s ");
    }
    plain
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}
