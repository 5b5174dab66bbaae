//! Recorded texts, each recognised as exactly its code; and texts that are nothing.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::signatures::{signatures, wordings};
use super::*;

mod host_logs;
mod hostile;
mod reasons;
mod remedies;
mod status;

/// Texts of others as they print them: by code, one per line, `#` before a comment. Where a line means something only
/// after others, they stand in front of it, with `⏎` between.
const KNOWN: &str = include_str!("corpus/known.txt");
/// Lines of logs that mean no harm.
const UNRELATED: &str = include_str!("corpus/unrelated.txt");

static RECOGNISER: LazyLock<Recogniser> = LazyLock::new(|| Recogniser::new().unwrap());

fn judge(line: &str) -> Option<Finding> {
    RECOGNISER.judge(line.as_bytes(), || Place::line("log", 1))
}

/// The code that is in front of each recorded text.
fn known() -> impl Iterator<Item = (&'static str, &'static str)> {
    KNOWN.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '))
}

/// The codes of a text, each once.
fn codes(text: &str) -> Vec<&'static str> {
    let mut context = LogContext::default();
    let lines = text.split(" ⏎ ");
    let found =
        lines.filter_map(|line| RECOGNISER.judge_in(&mut context, line.as_bytes(), || Place::line("log", 1)));
    let mut codes: BTreeSet<&str> = found.map(|finding| finding.code.id()).collect();
    codes.extend(Recogniser::judge_end(&context, |line| Place::line("log", line)).map(|end| end.code.id()));
    codes.into_iter().collect()
}

#[test]
fn each_recorded_text_is_exactly_its_code() {
    let wrong: Vec<_> = known()
        .map(|(code, text)| (code, codes(text), text))
        .filter(|(code, judged, _)| [*code] != judged[..])
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A line as it is judged.
fn text_of(line: &str) -> String {
    String::from_utf8_lossy(&plain(line.as_bytes())).into_owned()
}

/// The needle by which each text is recognised: the same sentence after three heads is one wording.
fn sentences() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut sentences: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (code, text) in known() {
        let mut context = LogContext::default();
        for line in text.split(" ⏎ ") {
            let line = text_of(line);
            let lower = line.to_ascii_lowercase();
            let reported = wordings().find(|(of, wording)| {
                of.id() == code
                    && lower.contains(wording.needle)
                    && wording.read(&line, &mut context).is_some()
            });
            if let Some((_, wording)) = reported {
                sentences.entry(code).or_default().insert(wording.needle);
            }
        }
    }
    sentences
}

#[test]
fn each_code_that_is_recognised_has_three_wordings() {
    let sentences = sentences();
    let mut few: Vec<&str> = Vec::new();
    for (code, _) in signatures() {
        if sentences.get(code.id()).map_or(0, BTreeSet::len) < 3 {
            few.push(code.id());
        }
    }
    few.sort_unstable();
    assert_eq!(few, reasons::FEW.iter().map(|(id, _)| *id).collect::<Vec<_>>());
    for (code, _) in signatures() {
        let texts = known().filter(|(id, _)| *id == code.id()).count();
        assert!(texts >= 3 || few.contains(&code.id()), "{code} has {texts} texts");
    }
}

#[test]
fn no_signature_is_without_a_text() {
    for (code, wording) in wordings() {
        let hit = known()
            .any(|(id, line)| id == code.id() && text_of(line).to_ascii_lowercase().contains(wording.needle));
        assert!(hit, "{code} `{}`", wording.needle);
    }
}

/// Who adds a code decides whether others say it: then it has wordings, or else a reason in the list.
#[test]
fn each_code_has_wordings_once_or_is_said_by_us_alone() {
    let mut listed: BTreeSet<&str> = signatures().map(|(code, _)| code.id()).collect();
    assert_eq!(listed.len(), signatures().count(), "a code stands twice in the table");
    // What nothing comes after is no wording of a line.
    listed.insert(Code::MemoryCgroupDisabled.id());
    let mut unsaid: Vec<&str> =
        Code::ALL.iter().map(|code| code.id()).filter(|id| !listed.contains(id)).collect();
    unsaid.sort_unstable();
    assert_eq!(unsaid, reasons::OURS.iter().map(|(id, _)| *id).collect::<Vec<_>>());
    for (id, reason) in reasons::OURS.iter().chain(reasons::FEW) {
        assert!(reason.split(' ').count() >= 4, "{id}: {reason}");
    }
    assert!(reasons::FEW.iter().all(|(id, _)| !reasons::OURS.iter().any(|(ours, _)| ours == id)));
}

#[test]
fn unrelated_lines_are_nothing() {
    let wrong: Vec<_> = UNRELATED.lines().map(|text| (codes(text), text)).collect();
    let wrong: Vec<_> = wrong.into_iter().filter(|(codes, _)| !codes.is_empty()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn names_are_read_from_gos_words_and_from_those_of_rustls_and_openssl() {
    let names = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    for (text, used, presented) in [
        (
            "x509: certificate is valid for kubernetes, pi.lan, not raspi",
            Some("raspi"),
            names(&["kubernetes", "pi.lan"]),
        ),
        (
            r#"msg="... x509: certificate is valid for 10.43.0.1, ::1, not 192.168.1.5""#,
            Some("192.168.1.5"),
            names(&["10.43.0.1", "::1"]),
        ),
        (
            "x509: cannot validate certificate for 10.0.0.7 because it doesn't contain any IP SANs",
            Some("10.0.0.7"),
            names(&[]),
        ),
        ("x509: certificate is valid for 120 names, but none matched raspi", Some("raspi"), names(&[])),
        (
            "x509: certificate is not valid for any names, but wanted to match raspi",
            Some("raspi"),
            names(&[]),
        ),
        (
            r#"certificate not valid for name "raspi"; certificate is only valid for DnsName("pi"), DnsName("localhost") or IpAddress(127.0.0.1)"#,
            Some("raspi"),
            names(&["pi", "localhost", "127.0.0.1"]),
        ),
        (
            r#"certificate not valid for name "raspi"; certificate is only valid for DnsName("pi")"#,
            Some("raspi"),
            names(&["pi"]),
        ),
        ("invalid peer certificate: NotValidForName", None, names(&[])),
        (
            "SSL: no alternative certificate subject name matches target host name 'raspi'",
            Some("raspi"),
            names(&[]),
        ),
        (
            "Hostname/IP does not match certificate's altnames: Host: raspi. is not in the cert's altnames: DNS:pi, DNS:localhost",
            Some("raspi"),
            names(&["pi", "localhost"]),
        ),
        (
            "Hostname/IP does not match certificate's altnames: IP: 10.0.0.7 is not in the cert's list: 127.0.0.1, 10.43.0.1",
            Some("10.0.0.7"),
            names(&["127.0.0.1", "10.43.0.1"]),
        ),
        (
            "hostname '10.0.0.7' doesn't match either of 'pi', 'kubernetes'",
            Some("10.0.0.7"),
            names(&["pi", "kubernetes"]),
        ),
        ("CertificateException: No name matching raspi found", Some("raspi"), names(&[])),
        ("verify error:num=62:hostname mismatch", None, names(&[])),
        ("Verify return code: 62 (hostname mismatch)", None, names(&[])),
    ] {
        let used = used.map(str::to_owned);
        assert_eq!(NameMismatch::read(text), Some(NameMismatch { used, presented }), "{text}");
    }
}

/// The words of the libraries in use, not of a recording.
#[test]
fn what_rustls_says_today_is_read() {
    use rustls::pki_types::ServerName;
    let error = rustls::Error::InvalidCertificate(rustls::CertificateError::NotValidForNameContext {
        expected: ServerName::try_from("raspi").unwrap(),
        presented: vec![r#"DnsName("pi")"#.to_owned(), "IpAddress(10.0.0.7)".to_owned()],
    });
    let read = NameMismatch::read(&error.to_string()).unwrap();
    assert_eq!((read.used.as_deref(), read.presented.join(" ")), (Some("raspi"), "pi 10.0.0.7".to_owned()));
}

#[test]
fn a_missing_name_comes_with_commands_that_name_it() {
    let finding = judge("x509: certificate is valid for kubernetes, raspik3d, not raspi").unwrap();
    assert!(finding.message.contains("`raspi`") && finding.message.contains("it has: kubernetes, raspik3d"));
    let remedy = finding.remedy.unwrap();
    assert!(remedy.explain.contains("--tls-server-name=raspik3d"), "{}", remedy.explain);
    assert!(remedy.commands[1].starts_with("echo 'tls-san+: [\"raspi\"]'"), "{:?}", remedy.commands);
}

#[test]
fn a_missing_right_comes_with_the_role_that_gives_it() {
    let finding = judge(
        r#"configmaps is forbidden: User "system:serviceaccount:team:sync" cannot list resource "configmaps" in API group "" in the namespace "foo""#,
    )
    .unwrap();
    assert_eq!(finding.message, "ServiceAccount team/sync may not list configmaps in namespace foo");
    assert_eq!(
        finding.remedy.unwrap().commands,
        [
            "kubectl create role sync-list-configmaps -n foo --verb=list --resource=configmaps",
            "kubectl create rolebinding sync-list-configmaps -n foo --role=sync-list-configmaps \
             --serviceaccount=team:sync",
        ]
    );
    let finding = judge(
        r#"secrets "key" is forbidden: User "system:serviceaccount:team:sync" cannot get resource "secrets" in API group "" in the namespace "team""#,
    );
    let commands = finding.unwrap().remedy.unwrap().commands;
    assert!(commands[0].ends_with("--verb=get --resource=secrets --resource-name=key"), "{commands:?}");
    // Cut off before it says where.
    let finding = judge(
        r#"secrets is forbidden: User "system:serviceaccount:team:sync" cannot list resource "secrets" in API"#,
    );
    assert!(!finding.unwrap().remedy.unwrap().commands.iter().any(|command| command.contains("create")));
    let finding = judge(
        r#"User \"system:serviceaccount:team:sync\" cannot patch resource \"deployments/scale\" in API group \"apps\" at the cluster scope"#,
    )
    .unwrap();
    assert_eq!(
        finding.message,
        "ServiceAccount team/sync may not patch deployments/scale.apps in the whole cluster"
    );
    let commands = finding.remedy.unwrap().commands;
    assert!(commands[0].ends_with("--verb=patch --resource=deployments.apps/scale"), "{commands:?}");
}

#[test]
fn what_concerns_another_server_changes_nothing_of_k3s() {
    for line in [
        "curl: (60) SSL: no alternative certificate subject name matches target host name 'raspi'",
        "x509: certificate signed by unknown authority",
        "Error: certificate has expired",
        "dial tcp: lookup registry.example on 192.168.1.1:53: no such host",
    ] {
        let finding = judge(line).unwrap();
        let commands = finding.remedy.clone().unwrap().commands;
        assert!(!commands.iter().any(|command| command.contains("k3s")), "{line}: {commands:?}");
        // The line does not say which server it is.
        assert!(finding.code == Code::NameNotFound || finding.severity() == Severity::Warn, "{line}");
    }
}

#[test]
fn a_registrys_certificate_is_not_that_of_k3s() {
    for (words, want) in [
        ("certificate signed by unknown authority", Code::RegistryCertificateUntrusted),
        ("certificate is valid for a, not reg.lan", Code::RegistryCertificateUntrusted),
        (
            "certificate has expired or is not yet valid: current time 1970",
            Code::RegistryCertificateUntrusted,
        ),
    ] {
        let finding =
            judge(&format!(r#"Head "https://reg.lan:5000/v2/a/manifests/1": x509: {words}"#)).unwrap();
        assert_eq!(finding.code, want, "{words}");
    }
}

#[test]
fn what_a_line_names_is_never_more_than_a_name_in_a_command() {
    for line in [
        "x509: certificate is valid for kubernetes, pi, not $(reboot)",
        "x509: certificate is valid for kubernetes, `reboot`, not raspi'; reboot; '",
        r#"failed to get CA certs: Get "https://$(reboot):6443/cacerts": x509: certificate is valid for kubernetes, not $(reboot)"#,
        "unable to verify hash for node '$(reboot)': hash does not match",
        "a;reboot b 0/1 ImagePullBackOff 0 16s",
        r#"pods is forbidden: User "$(reboot)" cannot list resource "pods" in API group "" in the namespace "a;reboot""#,
        "WARNING: Kubernetes configuration file is world-readable. This is insecure. Location: /home/$(reboot)/.kube/config",
        r#"Get "https://a;reboot/v2/": dial tcp: lookup a: no such host"#,
        r#"pinging container registry a: Get "https://a;reboot/v2/": http: server gave HTTP response to HTTPS client"#,
        r#"User "system:serviceaccount:team;reboot:sync" cannot list resource "$(reboot)" in API group "" in the namespace "foo""#,
        r#"serviceaccounts "sync;reboot" is forbidden: User "x" cannot create resource "serviceaccounts/token" in API group "" in the namespace "team""#,
        "dial tcp: lookup $(reboot) on 1.1.1.1:53: no such host",
        "Starting Node 'k3d-$(reboot)-server-0' failed to get ready",
        "lookup $(reboot).default.svc.cluster.local on 10.43.0.10:53: no such host",
        "lookup a.$(reboot).svc on 10.43.0.10:53: no such host",
    ] {
        let finding = judge(line).unwrap();
        let commands = finding.remedy.unwrap_or_default().commands;
        assert!(!commands.iter().any(|command| command.contains("reboot")), "{commands:?}");
    }
}

/// What a line names in particular is in the message, and what to type is of the right machine.
#[test]
fn what_a_line_says_in_particular_is_said() {
    for (line, message, command) in [
        (
            "dial tcp: lookup redis.default.svc.cluster.local on 10.43.0.10:53: no such host",
            "the name `redis.default.svc.cluster.local` cannot be resolved",
            "kubectl -n default get service redis",
        ),
        (
            r#"level=fatal msg="rpc error: desc = dns: A record lookup error: lookup argocd-redis on 10.96.0.10:53: no such host""#,
            "the name `argocd-redis` cannot be resolved",
            "kubectl get services -A",
        ),
        (
            r#"level=fatal msg="listen tcp :6443: bind: address already in use""#,
            "port 6443, which k3s needs, is in use",
            "sudo ss -lntup 'sport = :6443'",
        ),
        (
            "worker   NotReady   <none>   3d   v1.36.4+k3s1",
            "the node worker is NotReady",
            "kubectl describe node worker",
        ),
        (
            r#"error: context "pi" does not exist"#,
            "the kubeconfig has nothing called `pi`",
            "kubectl config get-contexts",
        ),
        (
            "I/O error, dev sda, sector 2056",
            "reading from or writing to sda fails",
            "lsblk -o NAME,TRAN,MODEL /dev/sda",
        ),
        (
            "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.",
            "no node that the pod may run on has the memory and the CPU that it requests",
            "kubectl get pods -A -o wide",
        ),
        (
            r#""msg":"slow fdatasync","took":"7.454439372s","expected-duration":"1s""#,
            "etcd waited 7 s for the disk; it needs writes of at most 10 ms",
            "weaver explain --journal k3s",
        ),
        (
            "k3s.service: Failed with result 'oom-kill'.",
            "a process of k3s.service was killed because memory ran out",
            "free -m",
        ),
        // Until 1.19 the passwords of nodes were in a file, and since then in secrets.
        (
            "Node password validation failed for 'pi02', using passwd file '/var/lib/rancher/k3s/server/cred/node-passwd'",
            "this server refuses the node pi02: it joined before with another node password",
            "sudo grep -rl --include=node-passwd pi02 /var/lib/rancher/k3s/server",
        ),
        (
            "unable to verify password for node pi02: hash does not match",
            "this server refuses the node pi02: it joined before with another node password",
            "sudo k3s kubectl -n kube-system delete secret pi02.node-password.k3s",
        ),
    ] {
        let finding = judge(line).unwrap();
        assert_eq!(finding.message, message, "{line}");
        let commands = finding.remedy.unwrap_or_else(|| finding.code.row().remedy()).commands;
        assert!(commands.iter().any(|typed| **typed == *command), "{line}: {commands:?}");
    }
}

#[test]
fn a_k3d_that_hangs_is_known_by_its_last_line() {
    let judge = |line: &str| Recogniser::judge_last(line.as_bytes(), Place::line("log", 9));
    let finding = judge("INFO[0014] Starting Node 'k3d-k3s-default-server-0'").unwrap();
    assert_eq!(finding.code, Code::K3dNodeRestarting);
    assert!(finding.remedy.unwrap().commands[0].contains("docker logs --tail 50 k3d-k3s-default-server-0 "));
    assert_eq!(judge("INFO[0014] Starting Node 'k3d-k3s-default-tools'"), None);
    assert_eq!(judge("INFO[0020] Cluster 'k3s-default' created successfully!"), None);
}

#[test]
fn colours_and_escaped_quotes_do_not_hide_an_error() {
    let line = "\u{1b}[31mFATA\u{1b}[0m[0001] \u{1b}[1mfailed\u{1b}[0m to find memory cgroup (v2)";
    let finding = judge(line).unwrap();
    assert_eq!(finding.code, Code::MemoryCgroupAbsent);
    assert_eq!(finding.evidence[0].saw, "FATA[0001] failed to find memory cgroup (v2)");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = RECOGNISER.judge(&bytes, || Place::file("log"));
        let _ = Recogniser::judge_last(&bytes, Place::file("log"));
    }

    #[test]
    fn no_rest_of_a_line_makes_a_reader_panic(index in 0..wordings().count(), before in ".{0,40}", rest in ".{0,80}") {
        let needle = wordings().nth(index).unwrap().1.needle;
        let line = format!("{before}{needle}{rest}");
        let _ = judge(&line);
    }
}
