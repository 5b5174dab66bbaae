//! What a stranger writes to a log, which an administrator has explained.

use std::ops::Range;

use super::*;

/// Lines that anyone who runs a pod can write: each has `evil` where the recorded line has a name, a path or a server of
/// the host's.
const LINES: &[&str] = &[
    "dpkg: error: parsing file '/var/lib/dpkg/updates/../../../../etc/evil' near line 0:",
    "dpkg: error: parsing file '/var/lib/dpkg/updates/evil' near line 0:",
    r#"Failed to create pod sandbox: failed to get sandbox image "evil/pause:1": image "evil/pause:1": not found"#,
    r#"Failed to create pod sandbox: failed to get sandbox image "rancher/mirrored-pause:evil": image "x": not found"#,
    r#"level=error msg="Failed to process config: failed to process /var/lib/rancher/k3s/storage/evil/server/manifests/registries.yaml: Object 'Kind' is missing in '{\"configs\":{}}'""#,
    "k3s.service: Failed at step EXEC spawning /var/lib/rancher/k3s/storage/evil/k3s: Permission denied",
    "WARNING: Kubernetes configuration file is group-readable. This is insecure. Location: /var/lib/rancher/k3s/storage/evil/.kube/config",
    "WARNING: Kubernetes configuration file is group-readable. This is insecure. Location: /home/../evil/.kube/config",
    r#"pinging container registry evil.example: Get "https://evil.example/v2/": http: server gave HTTP response to HTTPS client"#,
    r#"pinging container registry evil.example: Get "https://evil.example/v2/": x509: certificate signed by unknown authority"#,
    r#"Error: INSTALLATION FAILED: failed to download "oci://evil.example/x/y": failed to authorize: failed to fetch anonymous token: 403 Forbidden"#,
    r#"level=fatal msg="kubelet exited: failed to start ContainerManager: [invalid kernel flag: kernel/core_pattern, expected value: /tmp/evil, actual value: core]""#,
    "Unable to connect to the server: dial tcp: lookup x';evil;'.lan on 10.0.0.2:53: read udp 10.0.1.5:4->10.0.0.2:53: i/o timeout",
    r#"clusterroles is forbidden: User "system:serviceaccount:evil:evil" cannot bind resource "clusterroles" in API group "rbac.authorization.k8s.io" at the cluster scope"#,
    r#"secrets is forbidden: User "system:serviceaccount:a/../evil:b" cannot list resource "secrets" in API group "" in the namespace "a""#,
    "x509: certificate is valid for k3d-evil-server-0, kubernetes, not raspi",
    "sh: 1: /var/lib/kubelet/pods/1/volumes/a/evil: Exec format error",
    r#"Failed to pull image "../evil": failed to extract layer sha256:0: blob sha256:../evil: not found"#,
    "write /mnt/evil/../../etc/x: no space left on device",
];

/// Names that are none, of what a shell reads otherwise, of a step upwards, and of a volume.
const HOSTILE: &[&str] = &[
    "zq$evil",
    "zq$(evil)",
    "zq`evil`",
    "zq;evil",
    "zq|evil",
    "zq&evil",
    "zq>evil",
    "zq*evil",
    "zq'evil'",
    "zq\"evil\"",
    "zq\\evil",
    "zq\nevil",
    "zq/../../evil",
    "../../evil",
];

/// What no command has of such a name.
fn is_obeyed(command: &str, hostile: &str) -> bool {
    let sign = hostile.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).chars().next().unwrap();
    // A quote of our own may stand behind a plain name.
    let is_cut_off = !['\'', '"'].contains(&sign) && command.contains(&format!("zq{sign}"));
    let is_whole = sign != '.' && sign != '/' && command.contains(&format!("{sign}evil"));
    is_cut_off && sign != '/' || is_whole || command.contains("..") || command.contains('\n')
}

/// The commands for the last line of a recorded text.
fn typed(text: &str) -> Vec<String> {
    let mut context = LogContext::default();
    let found = text
        .split(" ⏎ ")
        .map(|line| RECOGNISER.judge_in(&mut context, line.as_bytes(), || Place::file("log")));
    let found = found.last().flatten().filter(|found| found.remedy != Some(found.code.row().remedy()));
    let remedy = found.and_then(|found| found.remedy).unwrap_or_default();
    remedy.commands.iter().map(ToString::to_string).collect()
}

/// Where a text has a word that can be a name.
fn words(text: &str) -> Vec<Range<usize>> {
    let of_name = |c: char| c.is_ascii_alphanumeric() || "-._/:@".contains(c);
    let words = text.split(|c| !of_name(c)).map(|word| word.trim_end_matches([':', '.']));
    let at = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    words.filter(|word| !word.is_empty()).map(|word| at(word)..at(word) + word.len()).collect()
}

fn with(text: &str, word: &Range<usize>, name: &str) -> String {
    [&text[..word.start], name, &text[word.end..]].concat()
}

#[test]
fn no_command_trusts_moves_or_opens_what_a_stranger_names() {
    for line in LINES {
        let finding = judge(line);
        // A path with a step upwards is none that such a program would print.
        assert!(finding.is_some() || line.contains(".."), "{line}");
        let commands = finding.and_then(|finding| finding.remedy).unwrap_or_default().commands;
        for command in &commands {
            assert!(!command.contains("evil") && !command.contains(".."), "{line}: {command}");
        }
    }
    let deleted = judge("kube-system evil 0/1 Evicted 0 3d").unwrap().remedy.unwrap().commands;
    let command = deleted.iter().find(|command| command.contains("delete")).unwrap();
    assert!(!command.contains("evil"), "{command}");
}

#[test]
fn what_the_host_has_itself_stays_in_the_commands() {
    for (line, want) in [
        (
            "dpkg: error: parsing file '/var/lib/dpkg/updates/0001' near line 0:",
            "sudo mv /var/lib/dpkg/updates/0001 /root/",
        ),
        (
            r#"failed to get sandbox image "rancher/mirrored-pause:3.6": image "rancher/mirrored-pause:3.6": not found"#,
            "echo 'pause-image: docker.io/rancher/mirrored-pause:3.6' | sudo tee /etc/rancher/k3s/config.yaml.d/92-pause-image.yaml",
        ),
        (
            r#"level=error msg="Failed to process config: failed to process /var/lib/rancher/k3s/server/manifests/registries.yaml: Object 'Kind' is missing in '{\"configs\":{}}'""#,
            "sudo mv /var/lib/rancher/k3s/server/manifests/registries.yaml /etc/rancher/k3s/registries.yaml",
        ),
        (
            "x: Failed at step EXEC spawning /usr/local/bin/k3s: Permission denied",
            "sudo chmod 0755 /usr/local/bin/k3s",
        ),
        (
            "WARNING: Kubernetes configuration file is group-readable. This is insecure. Location: /home/me/.kube/config",
            "chmod 600 /home/me/.kube/config",
        ),
        (
            r#"level=fatal msg="kubelet exited: failed to start ContainerManager: [invalid kernel flag: kernel/panic_on_oops, expected value: 1, actual value: 0]""#,
            "printf '%s\\n' kernel.panic_on_oops=1 | sudo tee /etc/sysctl.d/90-kubelet.conf",
        ),
    ] {
        let commands = typed(line);
        assert!(commands.iter().any(|command| command == want), "{line}: {commands:?}");
    }
}

/// Each place of a recorded text whose word is in a command.
#[test]
fn what_is_no_name_is_in_no_command_at_any_place_of_one() {
    let mut places = 0;
    for (_, text) in known() {
        let all = typed(text).join("\n");
        for word in words(text).into_iter().filter(|word| word.len() > 1 && all.contains(&text[word.clone()]))
        {
            places += 1;
            for hostile in HOSTILE {
                for command in typed(&with(text, &word, hostile)) {
                    assert!(!is_obeyed(&command, hostile), "{text}: {hostile}: {command}");
                }
            }
        }
    }
    assert!(places > 100, "{places}");
}

#[test]
fn no_secret_of_a_line_is_in_what_is_said_of_it() {
    for line in [
        r#"level=warning msg="Ignoring invalid endpoint URL 0=https://bot:ghp_0123456789abcdef@reg:x for docker.io: parse \"https://bot:ghp_0123456789abcdef@reg:x\": invalid port""#,
        r#"level=warning msg="Skipping duplicate endpoint URL 1=https://bot:hunter2@reg.lan for docker.io""#,
        r#"pinging container registry x: Get "https://me:hunter2@reg.lan/v2/": http: server gave HTTP response to HTTPS client"#,
        r#"Head "https://me:hunter2@reg.lan:5000/v2/a/manifests/1": x509: certificate signed by unknown authority"#,
        r#"Head "https://me:hunter2@reg.lan/v2/a/manifests/1": dial tcp: lookup reg.lan: no such host"#,
        r#"level=fatal msg="starting kubernetes: preparing server: creating storage endpoint: building kine: pq: no mysql://me:hunter2@tcp(db)/k3s""#,
        r#"level=fatal msg="starting kubernetes: preparing server: creating storage endpoint: building kine: pq: no user=me password=hunter2 host=db""#,
        "Failed to connect: https://pi:6443/?token=hunter2: certificate signed by unknown authority kubectl",
    ] {
        let finding = judge(line).unwrap_or_else(|| panic!("{line}"));
        let all = serde_json::to_string(&finding).unwrap();
        assert!(!["hunter2", "ghp_", "bot"].iter().any(|secret| all.contains(secret)), "{all}");
    }
}

/// A piece of a line has 64 KiB; what is looked at again and again for each of its parts takes minutes.
#[test]
fn a_line_of_nothing_but_one_part_is_judged_at_once() {
    let begun = worked();
    for part in
        ["://", "://a@", "://\"", "ghp_", "token", "token=", "lookup ", "@sha256:", "secret\"", "..", "/"]
    {
        let line =
            format!("x509: certificate signed by unknown authority {}", part.repeat(63_000 / part.len()));
        let _ = judge(&line);
    }
    // All of it takes some tenths of a second.
    let spent = worked() - begun;
    assert!(spent < 1_000, "{spent} hundredths of a second");
}

/// What this thread has worked so far, in hundredths of a second; other work of the machine does not count.
fn worked() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    // Behind the name of the program: its state is the third field, and the 14th and 15th are what it took.
    let fields = stat.rsplit_once(") ").unwrap().1.split(' ').skip(11).take(2);
    fields.map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    #[test]
    fn a_word_of_a_text_that_is_no_name_is_in_no_command(
        text in any::<prop::sample::Index>(), word in any::<prop::sample::Index>(), hostile in prop::sample::select(HOSTILE),
    ) {
        static TEXTS: LazyLock<Vec<&str>> = LazyLock::new(|| known().map(|(_, text)| text).collect());
        let text = *text.get(&TEXTS);
        let words = words(text);
        prop_assume!(!words.is_empty());
        let line = with(text, word.get(&words), hostile);
        for command in typed(&line) {
            prop_assert!(!is_obeyed(&command, hostile), "{line}: {command}");
        }
    }
}
