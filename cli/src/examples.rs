//! Examples that stand below the help of a verb. Each is a line that can be typed as it is; a test parses them all.

use clap::Command;

/// The verb, and lines to type, each after what it does.
type Examples = (&'static [&'static str], &'static [(&'static str, &'static str)]);

const EXAMPLES: [Examples; 19] = [
    (
        &["apply"],
        &[
            ("Wait until the operator has done it", "weaver apply -f syncs.yaml --wait"),
            (
                "If it does not become Ready, let it be what it was",
                "weaver apply -f syncs.yaml --rollback-on-failure",
            ),
            ("Let the API server judge only", "weaver apply -f - --dry-run=server"),
        ],
    ),
    (
        &["crd", "explain"],
        &[
            ("One field, with its limits and what is below", "weaver crd explain spec.targets.selector"),
            ("All fields of a kind", "weaver crd explain servicetokens.spec --recursive"),
        ],
    ),
    (
        &["crd", "lint"],
        &[
            ("Two releases", "weaver crd lint crds-1.0.yaml crds-1.1.yaml"),
            (
                "A cluster's, piped in by `kubectl get crd -o yaml`, and a release",
                "weaver crd lint - crds.yaml",
            ),
        ],
    ),
    (
        &["node", "upgrade"],
        &[
            (
                "From a file, with the release's sha256sum-arm64.txt beside it; what would be done?",
                "weaver node upgrade --k3s ./k3s-arm64 --dry-run",
            ),
            ("From the project's releases", "weaver node upgrade --k3s v1.36.4+k3s1"),
        ],
    ),
    (
        &["pause"],
        &[
            ("Everything, for a backup", "weaver pause --reason 'a backup of the database'"),
            ("One resource", "weaver pause --reason 'moving it' sync/settings -n team-a"),
        ],
    ),
    (
        &["sync", "create"],
        &[
            (
                "Copy the ConfigMap `settings` of team-a to foo and bar, as team-a's account",
                "weaver sync create settings -n team-a --account team-a-sync --source settings --to foo,bar",
            ),
            (
                "A Secret to all namespaces with a label",
                "weaver sync create registry -n team-a --account team-a-sync --source Secret/registry --selector team=a",
            ),
            (
                "From a manifest; the API server judges only",
                "weaver sync create -f sync.yaml --dry-run=server",
            ),
        ],
    ),
    (&["sync", "get"], &[("As YAML", "weaver sync get settings -n team-a -o yaml")]),
    (
        &["sync", "list"],
        &[
            ("Of all namespaces", "weaver sync list -A"),
            (
                "What copies this object",
                "weaver sync list -A --field-selector spec.source.namespace=team-a,spec.source.name=settings",
            ),
        ],
    ),
    (
        &["sync", "watch"],
        &[
            ("All of a namespace", "weaver sync watch -n team-a"),
            ("One, for a program", "weaver sync watch settings -n team-a -o json"),
        ],
    ),
    (
        &["sync", "edit"],
        &[
            ("In your editor (VISUAL, EDITOR)", "weaver sync edit settings -n team-a"),
            ("Without one", "weaver sync edit settings -n team-a --patch '{\"spec\":{\"suspend\":true}}'"),
        ],
    ),
    (
        &["sync", "delete"],
        &[
            ("With its copies; wait until they are gone", "weaver sync delete settings -n team-a --wait"),
            ("The copies stay, for `weaver orphans`", "weaver sync delete settings -n team-a --orphan"),
        ],
    ),
    (&["sync", "explain"], &[("Why is it not Ready?", "weaver sync explain settings -n team-a")]),
    (
        &["token", "create"],
        &[
            (
                "A token of `robot` for another audience under the key `registry`, for an hour",
                "weaver token create robot -n team-a --writer team-a-tokens --token registry=robot,audience=registry.lan",
            ),
            (
                "Two tokens, one of a quarter of an hour",
                "weaver token create ci -n team-a --writer team-a-tokens --token a=robot --token b=ci,expires=900",
            ),
        ],
    ),
    (
        &["token", "get"],
        &[(
            "As YAML; the tokens themselves are in the Secret only",
            "weaver token get robot -n team-a -o yaml",
        )],
    ),
    (
        &["token", "list"],
        &[(
            "Which does this account write?",
            "weaver token list -n team-a --field-selector spec.writer.serviceAccount.name=team-a-tokens",
        )],
    ),
    (&["token", "watch"], &[("All of a namespace", "weaver token watch -n team-a")]),
    (
        &["token", "edit"],
        &[(
            "Renew earlier",
            "weaver token edit robot -n team-a --patch '{\"spec\":{\"renewAtPercent\":50}}'",
        )],
    ),
    (
        &["token", "delete"],
        &[("Its Secret stays, and is not renewed any more", "weaver token delete robot -n team-a --orphan")],
    ),
    (
        &["uninstall"],
        &[
            ("What is there, and what would be done?", "weaver uninstall --dry-run"),
            ("Without the copies, from a script", "weaver uninstall --copies delete --yes"),
        ],
    ),
];

/// The command line with all examples, as they are typed when the program is called `program`.
pub fn added(mut command: Command, program: &str) -> Command {
    for (path, lines) in EXAMPLES {
        let lines = lines.iter().map(|(what, line)| {
            let line = line.strip_prefix("weaver").unwrap_or(line);
            format!("  # {what}\n  {program}{line}")
        });
        let text = format!("Examples:\n{}", lines.collect::<Vec<_>>().join("\n"));
        command = below(command, path, text);
    }
    command
}

fn below(command: Command, path: &[&str], text: String) -> Command {
    match path.split_first() {
        None => command.after_help(text),
        Some((verb, rest)) => command.mut_subcommand(verb, |verb| below(verb, rest, text)),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Words as a shell has them, as far as the examples need it.
    fn words(line: &str) -> Vec<String> {
        let parts = line.split('\'').enumerate();
        parts
            .flat_map(|(index, part)| match index % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect(),
                _ => vec![part.to_owned()],
            })
            .collect()
    }

    #[test]
    fn each_example_can_be_typed_and_stands_where_its_verb_is() {
        for (path, lines) in EXAMPLES {
            for (_, line) in lines {
                let words = words(line);
                assert_eq!(words[1..=path.len()], *path, "{line}");
                let parsed = crate::Args::command().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn help_shows_them_by_the_name_the_program_was_called_by() {
        let mut command = added(crate::Args::command(), "kubectl weaver").bin_name("kubectl weaver");
        let said = command.try_get_matches_from_mut(["kubectl-weaver", "sync", "get", "--help"]).unwrap_err();
        let help = said.to_string();
        assert!(help.contains("Usage: kubectl weaver sync get "), "{help}");
        assert!(help.contains("  # As YAML\n  kubectl weaver sync get settings -n team-a -o yaml"), "{help}");
    }
}
