//! `weaver.toml` as a whole: good files, every fault, and what no input does.

use super::*;
use crate::when::When;
use proptest::prelude::*;

const SAMPLE: &str = include_str!("../../../../image/overlay-boot/weaver.toml");
const GUIDE: &str = include_str!("../../../../docs/reference/weaver-toml.md");
const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g me@laptop";

fn faults(text: &str) -> Vec<Fault> {
    parse(text.as_bytes()).unwrap_err()
}

#[test]
fn the_sample_on_the_card_asks_for_nothing() {
    assert_eq!(parse(SAMPLE.as_bytes()).unwrap().config, Config::default());
}

/// The sample with every key in use: a line whose `#` has no space behind it is a setting.
fn sample_in_use() -> String {
    let setting =
        |line: &str| line.strip_prefix('#').filter(|rest| !rest.starts_with([' ', '#'])).map(str::to_owned);
    SAMPLE.lines().filter_map(setting).filter(|line| !line.is_empty()).map(|line| line + "\n").collect()
}

#[test]
fn the_sample_with_every_key_in_use_is_good() {
    let config = parse(sample_in_use().as_bytes()).unwrap().config;
    assert_eq!(config.hostname.unwrap().name, "raspi");
    assert_eq!(config.api_names, ["raspi.lan", "192.168.1.20"]);
    assert_eq!(config.ssh_keys, [KEY]);
    assert_eq!(config.network.address.unwrap().to_string(), "192.168.1.20/24");
    assert_eq!(config.network.gateway.unwrap().to_string(), "192.168.1.1");
    assert_eq!(config.network.dns.len(), 1);
    let wifi = config.wifi.unwrap();
    assert_eq!((wifi.country.as_str(), wifi.ssid.as_str(), wifi.hidden), ("DE", "attic", true));
    assert_eq!(wifi.password, SecretSetting::Keep);
    assert_eq!(config.time_servers, ["pool.ntp.org"]);
    assert_eq!(config.clock_wait, Some(30));
    assert_eq!((config.role, config.token), (RoleSetting::Server, SecretSetting::Keep));
    assert_eq!(config.k3s_options, [("disable".to_owned(), OptionValue::List(vec!["traefik".to_owned()]))]);
    assert!(config.registries.unwrap().contains("- https://registry.lan:5000\n"));
    assert_eq!(config.data_disk.unwrap().to_string(), "LABEL=ssd");
    let update = config.update.unwrap();
    assert_eq!((update.key.as_str(), update.when.map(When::name)), ("config-weaver.asc", Some("weekly")));
    assert_eq!(config.backup.unwrap().target, "/mnt/usb");
    assert_eq!((config.status.page, config.status.listen.len()), (Some(false), 1));
    assert_eq!(config.status.announce, Some(false));
}

#[test]
fn the_guide_shows_good_files_only() {
    let blocks: Vec<_> =
        GUIDE.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() > 5, "{}", blocks.len());
    for block in &blocks {
        assert_eq!(parse(block.as_bytes()).map(|_| ()), Ok(()), "{block}");
    }
    for key in keys::KEYS {
        let (line, section) = (format!("{} = ", key.name), format!("[{}]", key.path()));
        let shows = |block: &&str| block.contains(&line) || block.contains(&section);
        assert!(blocks.iter().any(shows), "no example of {}", key.path());
    }
}

#[test]
fn nothing_and_almost_nothing_are_good() {
    for file in
        [&b""[..], b"\n\n", b"# only a note", b"\xef\xbb\xbf", b"[api]\nnames = []\n[k3s]\n[k3s.options]\n"]
    {
        assert_eq!(parse(file).unwrap().config, Config::default(), "{file:?}");
    }
}

#[test]
fn a_file_of_a_windows_editor_is_good() {
    let file = b"\xef\xbb\xbfhostname = \"pi\"\r\n[k3s]\r\ntoken = \"hunter2\"\r\n# end";
    let read = parse(file).unwrap();
    assert_eq!(read.config.hostname.as_ref().unwrap().line, 1);
    assert_eq!(
        read.blanked(file).unwrap(),
        b"\xef\xbb\xbfhostname = \"pi\"\r\n[k3s]\r\ntoken = \"\"\r\n# end"
    );
}

#[test]
fn only_the_token_is_blanked_however_it_is_written() {
    for (before, after) in [
        ("[k3s]\ntoken = \"hunter2\" # note\n", "[k3s]\ntoken = \"\" # note\n"),
        ("k3s.token='hunter2'", "k3s.token=\"\""),
        ("k3s = { token = \"\"\"hunter2\"\"\" }\n", "k3s = { token = \"\" }\n"),
        ("# hunter2 is a comment\n[k3s]\ntoken = 'h'", "# hunter2 is a comment\n[k3s]\ntoken = \"\""),
    ] {
        let read = parse(before.as_bytes()).unwrap();
        assert_eq!(read.blanked(before.as_bytes()).unwrap(), after.as_bytes());
        assert_eq!(parse(after.as_bytes()).unwrap().config.token, SecretSetting::Keep);
        assert!(!format!("{read:?}").contains("hunter2"), "{read:?}");
    }
    let keeps = b"[k3s]\ntoken = \"\"\n";
    assert_eq!(parse(keeps).unwrap().blanked(keeps), None);
}

#[test]
fn both_secrets_are_blanked_in_whatever_order_they_stand() {
    let wifi =
        |password: &str| format!("[wifi]\ncountry = 'DE'\nssid = 'attic' # ours\npassword = {password}\n");
    let k3s = |token: &str| format!("[k3s]\ntoken = {token} # note\n");
    let all = |token: &str, password: &str| {
        [
            k3s(token) + &wifi(password),
            wifi(password) + &k3s(token),
            format!("\u{feff}{}", k3s(token) + &wifi(password)),
        ]
    };
    for (before, after) in all("'hunter2'", "\"\"\"hunter2hunter2\"\"\"").iter().zip(all("\"\"", "\"\"")) {
        let read = parse(before.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(read.blanked(before.as_bytes()).unwrap()).unwrap(), after);
        assert!(!format!("{read:?}").contains("hunter2"), "{read:?}");
        let config = parse(after.as_bytes()).unwrap().config;
        assert_eq!((config.token, config.wifi.unwrap().password), (SecretSetting::Keep, SecretSetting::Keep));
    }
    let mixed = format!("{}{}", wifi("\"hunter2hunter2\""), k3s("\"\""));
    let blanked = parse(mixed.as_bytes()).unwrap().blanked(mixed.as_bytes()).unwrap();
    assert_eq!(
        String::from_utf8(blanked).unwrap(),
        wifi("\"\"") + &k3s("\"\""),
        "only one is to be imported"
    );
}

fn numbered(text: fn(usize) -> String) -> String {
    (0..=MOST_ENTRIES).map(text).collect::<Vec<_>>().concat()
}

#[test]
fn every_fault_has_its_line_its_column_and_a_remedy() {
    let many = format!("[api]\nnames = [{}]", numbered(|n| format!("\"n{n}\",")));
    let many_options = format!("[k3s.options]\n{}", numbered(|n| format!("a{n} = 1\n")));
    let long_token = format!("[k3s]\ntoken = \"{}\"", "x".repeat(2000));
    let wifi = |more: &str| format!("[wifi]\ncountry = \"DE\"\nssid = \"attic\"\n{more}");
    let (short, number, spare, shown) = (
        wifi("password = \"hunter2\""),
        wifi("password = 12345678"),
        wifi("password = \"\"\nhidden = \"yes\""),
        wifi("password = \"\"\nzzz = \"hunter2hunter2\""),
    );
    let bare = wifi("");
    let twice = format!("[ssh]\nkeys = [\"{KEY}\",\n\"{KEY}2\"]");
    for (text, line, column, message, remedy) in [
        ("hostname = 5", 1, 12, "`hostname` is a number, not a string in quotes", "hostname = \"raspi\""),
        ("hostname = \"My Pi\"", 1, 12, "white space", "write \"my-pi\""),
        ("\nhostnam = \"pi\"", 2, 1, "unknown key `hostnam`", "did you mean `hostname`?"),
        ("role = \"agent\"", 1, 1, "unknown key `role`", "`role` belongs below [k3s]"),
        ("[k3s]\nrole = 5", 2, 8, "`role` is a number", "role = \"agent\""),
        ("[k3s]\nrole = \"worker\"", 2, 8, "the role `worker` is unknown", "\"server\" or \"agent\""),
        ("[k3s]\nserver = \"https://a:6443\"", 2, 1, "for a card that joins one", "role = \"agent\""),
        ("api = 5", 1, 1, "`api` is a number, not a section", "write [api]"),
        ("[[api]]\nnames = []", 1, 3, "double brackets", "write [api]"),
        ("[api]\nnames = \"raspi.lan\"", 2, 9, "`names` is a string, not a list", "names = [\"raspi.lan\""),
        ("[api]\nnames = [\"a\",\n 7]", 3, 2, "an entry of `names` is a number", "in quotes"),
        ("[api]\nnames = [\"*.lan\"]", 2, 10, "wildcard", "write out each name"),
        ("[api]\nnames = [\"a.\"]", 2, 10, "ends in a dot", "write \"a\""),
        ("[api]\nnames = [\"a\", \"A\"]", 2, 15, "twice", "remove one"),
        (&many, 2, 9, "65 entries, more than 64", "leave out"),
        ("[ssh]\nkeys = [\"nonsense\"]", 2, 9, "ssh key", ".pub"),
        (&twice, 3, 1, "twice", "remove one"),
        ("[network]\naddress = \"10.0.0.5\"", 2, 11, "no prefix length", "10.0.0.5/24"),
        ("[network]\ngateway = \"10.0.0.1\"", 2, 11, "without an `address`", "DHCP"),
        ("[network]\ndns = [\"a\"]", 2, 8, "not a host address", "192.168.1.1"),
        ("[network]\ndns = [\"1.1.1.1\", \"1.1.1.1\"]", 2, 19, "twice", "remove one"),
        (&bare, 3, 1, "`ssid` without a `password`", "add `password`"),
        (&short, 4, 12, "shorter than 8", "8 to 63"),
        (&number, 4, 12, "`password` is a number, not a string in quotes", "password = "),
        (&spare, 5, 10, "`hidden` is a string, not true or false", "hidden = true"),
        (&shown, 5, 1, "unknown key `zzz`", "known here: country, ssid, password, hidden"),
        ("[wifi]\ncountry = \"DE\"", 2, 1, "`country` without an `ssid`", "add `ssid`"),
        ("[wifi]\npassword = \"hunter2hunter2\"", 2, 1, "`password` without an `ssid`", "add `ssid`"),
        ("[wifi]\nhidden = true", 2, 1, "`hidden` without an `ssid`", "remove `hidden`"),
        ("[wifi]\nssid = \"a\"\npassword = \"\"", 2, 1, "`ssid` without a `country`", "\"DE\""),
        ("[wifi]\nssid = \"a\"\npassword = \"\"\ncountry = \"UK\"", 4, 11, "`UK` is unknown", "write \"GB\""),
        ("[wifi]\nssid = \"\"\npassword = \"\"\ncountry = \"GB\"", 2, 8, "has no name", "phone"),
        ("wifi = \"attic\"", 1, 1, "`wifi` is a string, not a section", "write [wifi]"),
        ("[time]\nservers = [\"\"]", 2, 12, "empty", "pool.ntp.org"),
        ("[time]\nwait_seconds = \"30\"", 2, 16, "a string, not a whole number", "wait_seconds = 30"),
        ("[time]\nwait_seconds = 301", 2, 16, "301, which is not in 0 to 300", "0 to 300"),
        ("[time]\nwait_seconds = -1", 2, 16, "-1, which", "0 to 300"),
        ("[time]\nwait_seconds = 1.5", 2, 16, "a number, not a whole number", "wait_seconds = 30"),
        ("[k3s]\ntoken = [\"hunter2\"]", 2, 9, "`token` is a list", "token = "),
        ("[k3s]\ntoken = \"hunter2 \"", 2, 9, "white space", "as k3s shows it"),
        ("[k3s]\ntoken = \"hünter2\"", 2, 9, "outside ASCII", "as k3s shows it"),
        (&long_token, 2, 9, "longer than 1024", "as k3s shows it"),
        ("[k3s]\noptions = 1", 2, 1, "`k3s.options` is a number", "write [k3s.options]"),
        ("[k3s.options]\ntls-san = [\"a\"]", 2, 1, "not set here", "[api]"),
        ("[k3s.options]\n\"tls-san+\" = [\"a\"]", 2, 1, "not set here", "[api]"),
        ("[k3s.options]\nagent-token = \"hunter2\"", 2, 1, "a secret", "only root"),
        ("[k3s.options]\nx-y = 1979-05-27", 2, 7, "a date", "a list of strings"),
        ("[k3s.options]\nx-y = nan", 2, 7, "a number", "a list of strings"),
        ("[k3s.options]\nx-y = [[1]]", 2, 8, "a list, not a string", "in quotes"),
        ("[k3s.options]\nx-y = \"a\\u0007\"", 2, 7, "control characters", "one line"),
        ("[k3s.options]\nx-y = [\"a\", \"a\"]", 2, 13, "twice", "remove one"),
        (&many_options, 2, 6, "65 keys", "leave out"),
        ("hostname = \"a\"\nhostname = \"b\"", 2, 1, "duplicate key", "keep one"),
        ("hostname = raspi", 1, 12, "not TOML", "write it as"),
        ("hostname = \"raspi", 1, 18, "not TOML", "write it as"),
    ] {
        let found = faults(text);
        assert_eq!(found.len(), 1, "{text:?}: {found:?}");
        let Fault { line: at, column: across, message: says, remedy: tells } = &found[0];
        assert!(says.contains(message) && tells.contains(remedy), "{text:?}: {found:?}");
        assert_eq!((*at, *across), (line, column), "{text:?}: {found:?}");
        assert!(!format!("{found:?}").contains("hunter2"), "{found:?}");
    }
}

const AGENT: &str = "[k3s]\nrole = \"agent\"\nserver = \"https://raspi.lan:6443\"\ntoken = \"hunter2\"\n";

#[test]
fn a_role_is_a_server_unless_an_agent_is_asked_for() {
    let role = |text: &str| parse(text.as_bytes()).unwrap().config.role;
    for server in ["", "[k3s]\n", "[k3s]\nrole = \"server\"\n"] {
        assert_eq!(role(server), RoleSetting::Server, "{server}");
    }
    let agent = RoleSetting::Agent("https://raspi.lan:6443".to_owned());
    assert_eq!(role(AGENT), agent);
    assert_eq!(role(&format!("hostname = \"worker\"\n[api]\nnames = []\n{AGENT}")), agent);
    assert_eq!(role(&AGENT.replace("hunter2", "")), agent, "the token was imported earlier");
}

#[test]
fn what_does_not_go_with_an_agent_has_its_place_and_a_remedy() {
    let with = |line: &str| format!("{line}{AGENT}");
    let without = |line: &str| AGENT.replace(line, "");
    let token = |token: &str| AGENT.replace("hunter2", token);
    let (server, secret) = ("server = \"https://raspi.lan:6443\"\n", "token = \"hunter2\"\n");
    for (text, line, column, message, remedy) in [
        (with("[api]\nnames = [\"a\"]\n"), 2, 1, "an agent serves no API", "weaver.toml of the server"),
        (with("hostname = \"raspi\"\n").replace(".lan", ""), 4, 10, "is this card itself", "different names"),
        (without(server), 2, 1, "no `server` is named", "server = \"https://"),
        (without(secret), 2, 1, "no `token` is there", "node-token"),
        (
            AGENT.replace("\"https://raspi.lan:6443\"", "5"),
            3,
            10,
            "`server` is a number",
            "server = \"https://",
        ),
        (AGENT.replace(":6443", ""), 3, 10, "has no port", "write \"https://raspi.lan:6443\""),
        (token("K10hunter2::server:hunter2"), 4, 9, "64 hexadecimal digits", "node-token"),
        (token("hunter2 "), 4, 9, "white space", "as k3s shows it"),
        (format!("{AGENT}[k3s.options]\nserver = \"a\"\n"), 6, 1, "not set here", "below [k3s]"),
    ] {
        let found = faults(&text);
        let [fault] = found.as_slice() else { panic!("{text}: {found:?}") };
        assert!(fault.message.contains(message) && fault.remedy.contains(remedy), "{text}: {fault:?}");
        assert_eq!((fault.line, fault.column), (line, column), "{text}: {fault:?}");
        assert!(!format!("{fault:?}").contains("hunter2"), "{fault:?}");
    }
}

#[test]
fn every_key_wrong_is_reported_at_once_in_the_order_of_the_file() {
    let text = "hostname = \"My Pi\"
colour = \"red\"
[api]
names = [\"*.lan\", \"a b\"]
[ssh]
keys = [\"-----BEGIN OPENSSH PRIVATE KEY-----hunter2\"]
[network]
address = \"raspi\"
gateway = 1
dns = [\"x\"]
[wifi]
country = \"de\"
ssid = \"\"
password = \"hunter2\"
hidden = 1
[time]
servers = [\"https://pool.ntp.org\"]
wait_seconds = 1000
[k3s]
token = 5
[k3s.options]
node-name = \"x\"
disable = 1979-05-27
[status]
page = 1
listen = [\"x\"]
";
    let lines: Vec<_> = faults(text).iter().map(|fault| fault.line).collect();
    assert_eq!(lines, [1, 2, 4, 4, 6, 8, 9, 10, 12, 13, 14, 15, 17, 18, 20, 22, 23, 25, 26]);
}

#[test]
fn a_syntax_error_does_not_hide_the_other_faults() {
    let found = faults("hostname = \"My Pi\"\n[api]\nnames = [\"*.lan\"\n\n[time]\nwait_seconds = 1000\n");
    assert_eq!(found.iter().map(|fault| fault.line).collect::<Vec<_>>(), [1, 5, 6], "{found:?}");
    let found = faults(&format!("[api]\nnames = [\"a\",\n\n[ssh]\nkeys = [\"{KEY}\"]\n"));
    assert_eq!(found.len(), 1, "the keys are still below [ssh]: {found:?}");
    let found = faults("hostname = My Pi\n[api]\nnames = [\"*.lan\"]\n");
    assert_eq!(found.iter().map(|fault| fault.line).collect::<Vec<_>>(), [1, 3], "{found:?}");
}

#[test]
fn what_is_not_looked_at_any_more_is_admitted() {
    let text = "key = no text\n".repeat(40);
    let found = faults(&text);
    assert_eq!((found.len(), found[32].line), (33, 33), "{found:?}");
    assert!(found[32].message.contains("the rest was not checked"), "{found:?}");
}

#[test]
fn a_deeply_nested_file_is_one_fault() {
    let text = format!("hostname = {}", "[".repeat(60_000));
    assert_eq!(faults(&text).len(), 1);
}

const SECRET: &str = "hunter2hunter2";

fn lines() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just(format!("token = \"{SECRET}\"")),
        Just(format!("token = '{SECRET} '")),
        Just(format!("token = \"{SECRET}")),
        Just(format!("token = {SECRET}")),
        Just(format!("token = [\"{SECRET}\"]")),
        Just(format!("k3s = {{ token = \"{SECRET}\" }}")),
        Just(format!("agent-token = \"{SECRET}\"")),
        Just(format!("[wifi]\npassword = \"{SECRET}ö\"")),
        Just(format!("[wifi]\npassword = {SECRET}")),
        Just(format!("[wifi]\npasswort = [\"{SECRET}\"]")),
        Just(format!("[wifi]\ncountry = \"DE\"\nssid = \"a\"\npassword = '{SECRET}'")),
        "\\[{1,2}(api|k3s|k3s\\.options|network|wifi|zzz)\\]{0,2}",
        "(hostname|names|keys|address|wait_seconds|token|ssid|country|password) = (\"[a-z.*]{0,4}\"|\\[\"x\", 1|5|\\])",
        "\\PC{0,12}",
    ];
    prop::collection::vec(line, 0..8).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn no_bytes_panic_and_every_fault_has_a_place(file in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(faults) = parse(&file) {
            prop_assert!(!faults.is_empty());
            prop_assert!(faults.iter().all(|fault| fault.line >= 1 && fault.column >= 1));
        }
    }

    #[test]
    fn no_file_lets_its_token_out(text in lines()) {
        match parse(text.as_bytes()) {
            Ok(read) => {
                let shown = format!("{read:?}");
                prop_assert!(!shown.contains(SECRET), "{}", shown);
                if let Some(blanked) = read.blanked(text.as_bytes()) {
                    let config = parse(&blanked).unwrap().config;
                    prop_assert!(!matches!(config.token, SecretSetting::Import(_)));
                    prop_assert!(config.wifi.is_none_or(|wifi| wifi.password == SecretSetting::Keep));
                    prop_assert!(!String::from_utf8_lossy(&blanked).contains(SECRET));
                }
            }
            Err(faults) => {
                prop_assert!(!faults.is_empty());
                for fault in faults {
                    prop_assert!(fault.line >= 1 && fault.column >= 1);
                    prop_assert!(!fault.message.contains(SECRET) && !fault.remedy.contains(SECRET), "{:?}", fault);
                    prop_assert!(!fault.message.is_empty() && !fault.remedy.is_empty());
                }
            }
        }
    }
}
