use proptest::prelude::*;
use serde_json::json;
use weaver_diagnostics::finding_text::is_unprintable;
use weaver_diagnostics::version_gap::gaps;

use super::super::published::FoundRelease;
use super::super::report::all_parts;
use super::*;

const OWN: &str = "0.2.0-rc.1";

fn operator(version: &str) -> Known<Option<OperatorVersion>> {
    let holder = "raspi_a_b_4026531836_812_99".into();
    Known::Is(Some(OperatorVersion { holder, version: Some(version.into()) }))
}

fn agent(node: &str, version: Option<&str>) -> NodeVersions {
    let agent = Known::Is(version.map(str::to_owned));
    NodeVersions { name: node.into(), agent, k3s: version.map(|_| "v1.36.4+k3s1".into()) }
}

fn unknown<T>(why: &str) -> Known<T> {
    Known::Unknown { unknown: why.into() }
}

fn definition(versions: Known<Option<Vec<String>>>) -> DefinitionVersions {
    DefinitionVersions { name: "configmapsyncs".into(), versions, differs: false }
}

fn cluster() -> ClusterVersions {
    let programs = ProgramVersions {
        operator: operator("0.2.0"),
        webhook: None,
        nodes: Known::Is(vec![agent("raspi", Some("0.2.0")), agent("old", None)]),
        more_nodes: false,
    };
    let versions = Known::Is(Some(vec!["v1beta1".into(), "v1alpha1".into()]));
    ClusterVersions { kubernetes: "v1.36.4+k3s1".into(), definitions: vec![definition(versions)], programs }
}

fn with(release: Option<Known<&str>>, cluster: Option<Known<ClusterVersions>>) -> String {
    let programs = match &cluster {
        Some(Known::Is(cluster)) => Some(&cluster.programs),
        _ => None,
    };
    let parts = all_parts(OWN, programs);
    let address = "https://files.example.com/latest".to_owned();
    let release = release.map(|release| match release {
        Known::Unknown { unknown } => Known::Unknown { unknown },
        Known::Is(version) => {
            let found = FoundRelease { address, version: version.into(), signed_by: None };
            Known::Is(PublishedRelease::of(found, OWN, &parts).unwrap())
        }
    });
    text(&VersionReport { weaver: OWN, release, cluster, too_far_behind: gaps(&parts) })
}

fn of(cluster: ClusterVersions) -> String {
    with(None, Some(Known::Is(cluster)))
}

#[test]
fn each_part_has_its_line() {
    assert_eq!(
        of(cluster()),
        "weaver          0.2.0-rc.1\n\
         kubernetes      v1.36.4+k3s1\n\
         operator        0.2.0, on raspi, process 812\n\
         configmapsyncs  v1beta1 (stored), v1alpha1\n\
         node raspi      agent 0.2.0, k3s v1.36.4+k3s1\n\
         node old        agent before 0.2, or not known, k3s not known\n"
    );
    assert_eq!(with(None, None), "weaver  0.2.0-rc.1\n");
}

#[test]
fn what_is_not_there_or_may_not_be_seen_is_said() {
    let mut none = cluster();
    none.definitions = vec![definition(Known::Is(None))];
    none.programs.operator = Known::Is(None);
    none.programs.nodes = Known::Is(Vec::new());
    let none = of(none);
    let lines = "operator    no leader\nCRDs        not installed\nnodes       no agent has reported\n";
    assert!(none.ends_with(lines), "{none}");

    let mut forbidden = cluster();
    forbidden.definitions = vec![definition(unknown("crds is forbidden")), definition(Known::Is(None))];
    forbidden.programs.operator = unknown("leases is forbidden");
    forbidden.programs.nodes = unknown("nodereports is forbidden");
    let forbidden = of(forbidden);
    for line in [
        "operator        unknown: leases is forbidden\n",
        "configmapsyncs  unknown: crds is forbidden\n",
        "configmapsyncs  not installed\n",
        "nodes           unknown: nodereports is forbidden\n",
    ] {
        assert!(forbidden.contains(line), "{line} {forbidden}");
    }

    let mut many = cluster();
    many.definitions[0].differs = true;
    many.programs.more_nodes = true;
    let broken = NodeVersions { name: "broken".into(), agent: unknown("its report is empty"), k3s: None };
    many.programs.nodes = Known::Is(vec![broken]);
    let many = of(many);
    for line in [
        "v1alpha1; not as in this weaver, see `weaver crd diff`\n",
        "node broken     agent unknown: its report is empty, k3s not known\n",
        "more nodes      not shown",
    ] {
        assert!(many.contains(line), "{line} {many}");
    }

    let lost = with(None, Some(unknown("no answer within 15 s")));
    assert_eq!(lost, "weaver   0.2.0-rc.1\ncluster  not reached: no answer within 15 s\n");
}

#[test]
fn a_webhook_in_the_cluster_has_its_line_and_json_has_no_field_without_one() {
    let mut with = cluster();
    assert_eq!(serde_json::to_value(&with).unwrap().get("webhook"), None);
    let one = |version| WebhookVersion { deployment: "weaver-webhook".into(), version };
    // An owner's tag is no version of ours, even where it looks like one.
    let all = vec![one(Known::Is("2026.11.30".to_owned())), one(unknown("its image has no tag"))];
    with.programs.webhook = Some(Known::Is(all));
    let json = serde_json::to_value(&with).unwrap();
    let deployment = "weaver-webhook";
    assert_eq!(
        json["webhook"],
        json!([
            {"deployment": deployment, "version": "2026.11.30"},
            {"deployment": deployment, "version": {"unknown": "its image has no tag"}},
        ])
    );
    let text = of(with);
    let lines = "\nwebhook         2026.11.30, by the image of the Deployment weaver-webhook\n\
                 webhook         unknown: its image has no tag\nconfigmapsyncs  ";
    assert!(text.contains(lines) && !text.contains("behind"), "{text}");

    let mut refused = cluster();
    refused.programs.webhook = Some(unknown("you may not list Deployments"));
    let refused = of(refused);
    assert!(refused.contains("\nwebhook         unknown: you may not list Deployments\n"), "{refused}");
}

#[test]
fn a_release_is_compared_with_each_part_and_leads_to_what_to_type() {
    let same = with(Some(Known::Is(OWN)), None);
    let line =
        "release  0.2.0-rc.1, the same as this weaver (signature not checked, pass --key), at https://files.";
    assert!(same.contains(line) && !same.contains("update"), "{same}");
    let older = with(Some(Known::Is("0.1.0")), None);
    assert!(older.contains("0.1.0, older than this weaver") && !older.contains("update"), "{older}");
    let newer = with(Some(Known::Is("0.2.1")), Some(Known::Is(cluster())));
    assert!(newer.contains("0.2.1, newer than this weaver"), "{newer}");
    assert!(
        newer.contains("\n\nolder than 0.2.1: weaver, operator, agent on raspi\nto update: on a node"),
        "{newer}"
    );
    let mut behind = cluster();
    behind.programs.operator = operator("0.1.0");
    let behind = with(Some(Known::Is(OWN)), Some(Known::Is(behind)));
    assert!(behind.contains("older than 0.2.0-rc.1: operator\n"), "{behind}");
    let unknown = with(Some(unknown("cannot fetch https://x")), None);
    assert_eq!(unknown, "weaver   0.2.0-rc.1\nrelease  unknown: cannot fetch https://x\n");
}

#[test]
fn a_part_that_is_too_old_for_another_is_named_with_what_to_do() {
    let mut apart = cluster();
    apart.programs.operator = operator("0.4.0");
    let said = of(apart);
    for part in ["weaver 0.2.0-rc.1", "agent on raspi 0.2.0"] {
        let name = part.rsplit_once(' ').unwrap().0;
        let line = format!(
            "\n{part} is more than one minor version behind operator 0.4.0; that these work together is not \
             promised: update {name}\n"
        );
        assert!(said.contains(&line), "{said}");
    }
    let mut near = cluster();
    near.programs.operator = operator("0.3.0");
    assert!(!of(near).contains("behind"));
}

proptest! {
    #[test]
    fn no_one_forges_a_line(text in "[\u{1b}\u{7}\r\n\u{9b}\u{202e}\u{2028}a-z_]{0,30}") {
        let mut cluster = cluster();
        cluster.kubernetes.clone_from(&text);
        let forged = OperatorVersion { holder: text.clone(), version: Some(text.clone()) };
        cluster.programs.operator = Known::Is(Some(forged));
        let deployment = text.clone();
        let forged = WebhookVersion { deployment, version: Known::Is(text.clone()) };
        cluster.programs.webhook = Some(Known::Is(vec![forged]));
        cluster.programs.nodes = Known::Is(vec![
            NodeVersions { k3s: Some(text.clone()), ..agent(&text, Some(&text)) },
            // One whose version is compared, too.
            agent(&text, Some("0.9.0")),
        ]);
        let shown = of(cluster);
        prop_assert!(!shown.contains(|c| c != '\n' && is_unprintable(c)), "{shown:?}");
        prop_assert_eq!(shown.lines().count(), 7 + 2);
    }
}
