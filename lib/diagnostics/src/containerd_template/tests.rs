use super::*;
use proptest::prelude::*;

fn found(text: &str, version: TemplateVersion) -> Vec<String> {
    let findings = lint(&TextFile::new("/t", text), version, true);
    findings.into_iter().map(|finding| finding.message).collect()
}

/// The template of before containerd 2, as people copied it.
const WHOLE: &str = "version = 2\n\n[plugins.\"io.containerd.internal.v1.opt\"]\n  path = \"{{ .NodeConfig.Containerd.Opt }}\"\n\
    [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n\tSystemdCgroup = {{ .SystemdCgroup }}\n\
    [plugins.\"io.containerd.grpc.v1.cri\".registry]\n  config_path = \"{{ .NodeConfig.Containerd.Registry }}\"\n";

#[test]
fn what_works_is_left_alone() {
    for (text, version) in [
        (WHOLE, TemplateVersion::V2),
        ("{{ template \"base\" . }}\n", TemplateVersion::V3),
        (
            "{{- template `base` . -}}\n# [plugins.'io.containerd.cri.v1.runtime']\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'nvidia']\n  \
             runtime_type = \"io.containerd.runc.v2\"\n",
            TemplateVersion::V3,
        ),
        (
            "{{ template \"base\" . }}\n\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.\"custom\".options]\n  BinaryName = \"/usr/bin/c\"\n  \
             SystemdCgroup = {{ .SystemdCgroup }}\n",
            TemplateVersion::V2,
        ),
        (
            "{{/* a note\nof two lines */}}{{ template \"base\" . }}\n[debug]\nlevel = \"debug\"\n",
            TemplateVersion::V3,
        ),
    ] {
        assert_eq!(found(text, version), [""; 0], "{text}");
    }
}

#[test]
fn what_breaks_containerd_or_has_no_effect_is_named_with_its_line() {
    let with_base = |text: &str| format!("{{{{ template \"base\" . }}}}\n{text}");
    for (text, version, want) in [
        ("\n{{ template \"base\" .\n".to_owned(), TemplateVersion::V3, "/t:2: an action begins with `{{`"),
        (
            "{{ template \"base\" }}\n".to_owned(),
            TemplateVersion::V3,
            "/t: `{{ template \"base\" }}` has no dot",
        ),
        ("{{ template 'base' . }}\n".to_owned(), TemplateVersion::V3, "/t:1: an action has single quotes"),
        (
            with_base("{{ if not .NodeConfig.NoFlannel }}{{end}}\n"),
            TemplateVersion::V2,
            "/t:2: k3s has no .NodeConfig.NoFlannel",
        ),
        (
            "[plugins.opt]\n  path = \"{{ .NodeConfig.Containerd.Opt }}\"\n[plugins.cri.containerd]\n"
                .to_owned(),
            TemplateVersion::V2,
            "/t: it is a configuration of version 1",
        ),
        (
            "version = 3\n[debug]\nlevel = \"debug\"\n".to_owned(),
            TemplateVersion::V3,
            "/t: it replaces all that k3s would write",
        ),
        (
            WHOLE.replace("config_path", "x"),
            TemplateVersion::V2,
            "/t: it replaces all that k3s would write, and lacks the registries",
        ),
        (
            WHOLE.replace("{{ .SystemdCgroup }}", "false"),
            TemplateVersion::V2,
            "/t:6: this makes containerd manage cgroups itself",
        ),
        (
            with_base("[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\n"),
            TemplateVersion::V3,
            "/t:2: k3s' own configuration has [plugins.io.containerd.cri.v1.runtime.containerd.runtimes.runc.options] already",
        ),
        (
            with_base("[plugins.\"io.containerd.grpc.v1.cri\".registry]\n"),
            TemplateVersion::V2,
            "/t:2: k3s' own configuration has [plugins.io.containerd.grpc.v1.cri.registry] already",
        ),
        (
            with_base("[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.\"nvidia\"]\n"),
            TemplateVersion::V3,
            "/t:2: a table of containerd 1 has no effect",
        ),
        (
            with_base("[debug\nlevel = \"debug\"\n"),
            TemplateVersion::V3,
            "/t:2: the header of a table has no `]`",
        ),
        (with_base("[debug]\nlevel = debug\n"), TemplateVersion::V3, "/t:3: a value that is not a number"),
        (
            with_base("oom_score = -999\n[debug]\n"),
            TemplateVersion::V3,
            "/t:2: a line after the base without its own table header",
        ),
    ] {
        let found = found(&text, version);
        assert!(found.len() == 1 && found[0].starts_with(want), "{text}: {found:?}");
    }
    let file = TextFile::new("/t", with_base("[plugins.\"io.containerd.grpc.v1.cri\".registry.mirrors.a]\n"));
    let remedy = lint(&file, TemplateVersion::V3, true).remove(0).remedy.unwrap();
    assert!(remedy.explain.contains("plugins.'io.containerd.cri.v1.images'.registry.mirrors.a"));
}

#[test]
fn a_configuration_that_k3s_has_not_written() {
    let by_hand = overwritten(&TextFile::new("/config.toml", "# mine\nversion = 2\n")).unwrap();
    assert!(by_hand.message.starts_with("/config.toml: k3s writes this file again"), "{by_hand:?}");
    assert_eq!(by_hand.severity(), Severity::Warn);
    let own = "# File generated by k3s. DO NOT EDIT. Use config-v3.toml.tmpl instead.\nversion = 3\n";
    assert_eq!(overwritten(&TextFile::new("/config.toml", own)), None);
}

#[test]
fn what_no_k3s_starts_with_is_a_failure() {
    for (text, version, want) in [
        ("{{ template \"base\" .\n", TemplateVersion::V3, Severity::Fail),
        ("{{ template \"base\" }}\n", TemplateVersion::V3, Severity::Fail),
        ("{{ template 'base' . }}\n", TemplateVersion::V3, Severity::Fail),
        ("[plugins.cri]\n", TemplateVersion::V3, Severity::Fail),
        // containerd 1 takes it.
        ("[plugins.cri]\n", TemplateVersion::V2, Severity::Warn),
        ("version = 3\n[debug]\n", TemplateVersion::V3, Severity::Warn),
    ] {
        let found = lint(&TextFile::new("/t", text), version, true);
        assert!(found.len() == 1 && found[0].severity() == want, "{text}: {found:?}");
    }
    assert_eq!(not_read("/c").severity(), Severity::Warn);
    let fine =
        "{{/* don't */}}{{ template \"base\" . }}\n{{ with \"it's\" }}{{ printf \"%c\" 'a' }}{{ end }}\n";
    assert_eq!(lint(&TextFile::new("/t", fine), TemplateVersion::V3, true), []);
}

proptest! {
    #[test]
    fn never_panics(text in "\\PC*|(\\{\\{|\\}\\}| template \"base\" |\\.|\\[|\\]|plugins|=|\n){0,20}") {
        for (_, version) in FILES {
            let _ = lint(&TextFile::new("/t", text.clone()), version, true);
        }
    }
}
