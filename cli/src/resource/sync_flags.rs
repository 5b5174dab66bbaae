//! A ConfigMapSync or ResourceSync from flags, and with `--grant` what its account needs.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{anyhow, bail};
use clap::Args;
use serde_json::{Value, json};
use weaver_api::v1beta1::{ConfigMapSyncSpec, ResourceSyncSpec, SourceKind};
use weaver_api::validate::validate;
use weaver_client::WriteMode;
use weaver_diagnostics::yaml_text;
use weaver_tenant::Account;

use super::create::{self, Create, ObjectFromFlags};
use super::kind::Kind;
use super::manifest::{self, CheckedManifest};
use super::store::{self, Store};
use crate::connection;
use crate::stdout::{note, print, say};
use crate::sync::any_sync::valid_resource;
use crate::{grant, missing};

#[derive(Args)]
pub struct SyncFlags {
    /// Name of the ConfigMapSync, or of the ResourceSync
    #[arg(requires = "Who", requires = "source")]
    name: Option<String>,
    #[command(flatten)]
    who: Who,
    /// Object to copy, by default a ConfigMap of this namespace: `settings`, `Secret/team-a/registry`; several with --merge:
    /// `team-a/roots,extra`
    #[arg(long, value_name = "[KIND/][NAMESPACE/]NAME", requires = "name")]
    source: Option<SourceFlag>,
    /// Kind of the object, such as `NetworkPolicy`: makes a ResourceSync
    #[arg(long, value_name = "KIND", requires = "api_version", conflicts_with = "merge")]
    kind: Option<String>,
    /// API group and version of that kind: `networking.k8s.io/v1`
    #[arg(long, value_name = "VERSION", requires = "kind")]
    api_version: Option<String>,
    /// Labels of the objects to copy, instead of a name: `share=true`, with `*` as NAME in --source
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', requires = "source")]
    source_selector: Vec<Label>,
    /// Merge the sources into one copy of this name; a key of two sources is refused unless it is joined
    #[arg(long, value_name = "COPY", requires = "source")]
    merge: Option<String>,
    /// Keys whose values are joined: `ca.crt`
    #[arg(long, value_name = "KEY", value_delimiter = ',', requires = "merge")]
    join: Vec<String>,
    /// Prefix of the copy's name, in front of the name of its source
    #[arg(long, value_name = "PREFIX", requires = "source")]
    name_prefix: Option<String>,
    /// Suffix of the copy's name, behind the name of its source
    #[arg(long, value_name = "SUFFIX", requires = "source")]
    name_suffix: Option<String>,
    /// Namespaces that receive a copy, or quoted patterns of their names: `'app-*'`
    #[arg(long, value_name = "NAMESPACE|PATTERN", value_delimiter = ',', requires = "name")]
    to: Vec<String>,
    /// Labels of further namespaces that receive a copy: `team=a,tier=dev`
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', requires = "name")]
    selector: Vec<Label>,
    #[command(flatten)]
    create: Create,
}

/// Whose rights are used.
#[derive(Args)]
#[group(multiple = true)]
struct Who {
    /// ServiceAccount of this namespace that reads the source and writes the copies; with --grant by default NAME
    #[arg(long, value_name = "ACCOUNT", requires = "name")]
    account: Option<String>,
    /// Create the account and grant it what it needs, with your rights; with --dry-run print all manifests instead
    #[arg(long, requires = "name")]
    grant: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct SourceFlag {
    /// By default a ConfigMap.
    kind: Option<SourceKind>,
    namespace: Option<String>,
    name: String,
}

impl FromStr for SourceFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind_of = |word: &str| SourceKind::ALL.into_iter().find(|kind| kind.as_str() == word);
        // No namespace is called like a kind: its name has no capitals.
        let (kind, rest) = match text.split_once('/') {
            Some((first, rest)) => kind_of(first).map_or((None, text), |kind| (Some(kind), rest)),
            None => (None, text),
        };
        let (namespace, name) = match rest.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, rest),
        };
        if name.is_empty() || name.contains('/') || namespace.as_deref() == Some("") {
            return Err(
                "write NAME, NAMESPACE/NAME or KIND/NAMESPACE/NAME, with ConfigMap or Secret as KIND".into(),
            );
        }
        Ok(Self { kind, namespace, name: name.to_owned() })
    }
}

#[derive(Clone, Debug)]
struct Label(String, String);

impl FromStr for Label {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => {
                Ok(Self(key.to_owned(), value.trim_start_matches('=').to_owned()))
            }
            _ => Err("write KEY=VALUE; with other operators, write a manifest".into()),
        }
    }
}

/// Instead of the name of a source: all that match the labels.
const ALL: &str = "*";

fn match_labels(labels: &[Label]) -> Value {
    let labels: BTreeMap<&str, &str> =
        labels.iter().map(|Label(key, value)| (key.as_str(), value.as_str())).collect();
    json!({"matchLabels": labels})
}

impl SyncFlags {
    fn of(&self) -> Kind {
        if self.kind.is_some() { Kind::ResourceSync } else { Kind::ConfigMapSync }
    }

    fn account(&self) -> Option<&String> {
        self.who.account.as_ref().or(self.name.as_ref().filter(|_| self.who.grant))
    }

    /// What is wrong where the source has a kind of its own next to `--kind`.
    fn two_kinds(&self) -> Option<String> {
        let (kind, own) = (self.kind.as_ref()?, self.source.as_ref()?.kind?.as_str());
        Some(format!("--kind {kind} and --source {own}/… name two kinds: leave {own}/ out of --source"))
    }

    /// The spec, for a resource in `namespace`: fields without a flag are left to the schema's defaults.
    fn spec(&self, namespace: &str) -> Value {
        let mut spec = json!({"targets": {}});
        if let Some(account) = self.account() {
            spec["serviceAccount"] = json!({"name": account});
        }
        if let Some(SourceFlag { kind, namespace: own, name }) = &self.source {
            spec["source"] =
                json!({"kind": kind.unwrap_or_default(), "namespace": own.as_deref().unwrap_or(namespace)});
            if let (Some(kind), Some(version)) = (&self.kind, &self.api_version) {
                spec["source"]["kind"] = json!(kind);
                spec["source"]["apiVersion"] = json!(version);
            }
            if self.merge.is_some() && name != ALL || name.contains(',') {
                spec["source"]["names"] = name.split(',').collect();
            } else if name != ALL {
                spec["source"]["name"] = json!(name);
            }
            if name == ALL || !self.source_selector.is_empty() {
                spec["source"]["selector"] = match_labels(&self.source_selector);
            }
        }
        if let Some(copy) = &self.merge {
            spec["targets"]["name"] = json!(copy);
            spec["merge"] = if self.join.is_empty() { json!({}) } else { json!({"join": self.join}) };
        }
        for (field, part) in [("namePrefix", &self.name_prefix), ("nameSuffix", &self.name_suffix)] {
            if let Some(part) = part {
                spec["targets"][field] = json!(part);
            }
        }
        let (patterns, names): (Vec<_>, Vec<_>) = self.to.iter().partition(|to| to.contains(['*', '?']));
        for (field, list) in [("namespaces", names), ("patterns", patterns)] {
            if !list.is_empty() {
                spec["targets"][field] = json!(list);
            }
        }
        if !self.selector.is_empty() {
            spec["targets"]["selector"] = match_labels(&self.selector);
        }
        spec
    }
}

/// Creates the object of the flags or of the file.
pub async fn run(options: &SyncFlags) -> anyhow::Result<ExitCode> {
    if let Some(why) = options.two_kinds() {
        bail!(why);
    }
    let spec = |namespace: &str| options.spec(namespace);
    let flags = options.name.as_deref().map(|name| ObjectFromFlags { name, spec: &spec });
    let mut connected = None;
    if let Some(name) = options.name.as_deref().filter(|_| options.who.grant) {
        let store = Store::connect(options.of(), options.create.namespace.as_deref()).await?;
        if !grant(&store, options, name).await? {
            return Ok(ExitCode::SUCCESS);
        }
        connected = Some(store);
    }
    create::run(options.of(), &options.create, flags, connected).await
}

/// Makes what the account needs; whether the resource is still to be made. In a dry run all of it is printed.
async fn grant(store: &Store, options: &SyncFlags, name: &str) -> anyhow::Result<bool> {
    let namespace = store.namespace.clone().unwrap_or_default();
    let written = options.spec(&namespace);
    // All faults are reported before anything is created.
    let CheckedManifest { object, .. } =
        manifest::check(create::object(options.of(), name, &written), 1, None, &namespace)?;
    let client = store.client();
    let spec = match options.of() {
        Kind::ResourceSync => {
            let spec: ResourceSyncSpec = serde_json::from_value(written)?;
            valid_resource(client, Some(&spec)).await
        }
        Kind::ConfigMapSync | Kind::ServiceToken => {
            let spec: ConfigMapSyncSpec = serde_json::from_value(written)?;
            validate(Some(&spec)).map_err(|_| Vec::new())
        }
    };
    let spec =
        spec.map_err(|faults| anyhow!("{} is not valid: {}", store.object_key(name), faults.join("; ")))?;
    if store.objects.get(name).await.map_err(|error| store.said(error.why))?.is_some() {
        bail!(
            "{} exists already and was not changed: `weaver sync explain {name} -n {namespace} --grant{}` grants what it lacks",
            store.object_key(name),
            connection::flags()
        );
    }
    let lacks_namespace = create::lacks_namespace(store, &options.create).await?;
    // What a dry run prints is for another program.
    let tell: missing::Tell<'_> = &|line: &str| note!("{line}");
    let targets = missing::targets(client, &namespace, &spec, tell).await;
    let account = Account { namespace: namespace.clone(), name: spec.account.clone() };
    let missing = missing::to_grant(client, &account, &spec, &targets, tell).await?;
    let parts = grant::lacking(client, &account, &missing).await?;
    if spec.has_selection() {
        note!(
            "rights are granted in the namespaces that are selected now; after others have been created, \
             `weaver sync explain {name} -n {namespace} --grant{}` grants them there",
            connection::flags()
        );
    }
    if options.create.dry_run.is_asked_for() {
        let home = lacks_namespace.then(|| yaml_text::write(&store::namespace(&namespace)));
        let parts = parts.iter().map(grant::GrantObject::manifest);
        let all = home.into_iter().chain(parts).chain([yaml_text::write(&object)]);
        print(&all.collect::<Vec<_>>().join("---\n"))?;
        return Ok(false);
    }
    if lacks_namespace {
        say(format_args!("Namespace {namespace}"));
        store.create_namespace(&namespace, false).await?;
    }
    // Nothing is granted for what the API server, or a policy of the cluster, does not let in.
    let judged = store.objects.create(name, &object, WriteMode::DryRun).await;
    judged.map_err(|error| store.said(error.why).context("nothing was granted"))?;
    grant::show(&parts);
    grant::make(client, &parts).await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use weaver_api::validate::validate_resource;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: SyncFlags,
    }

    fn flags(line: &str) -> SyncFlags {
        let words = ["create"].into_iter().chain(line.split(' '));
        Line::try_parse_from(words).map_err(|error| error.to_string()).unwrap().flags
    }

    fn spec(line: &str) -> Value {
        flags(line).spec("team-a")
    }

    #[test]
    fn flags_make_a_spec_that_keeps_the_rules() {
        let spec = spec(
            "settings --account sync --source Secret/other/registry --to foo,bar --to baz --selector a=1,b==2",
        );
        let expected = json!({
            "serviceAccount": {"name": "sync"},
            "source": {"kind": "Secret", "namespace": "other", "name": "registry"},
            "targets": {"namespaces": ["foo", "bar", "baz"], "selector": {"matchLabels": {"a": "1", "b": "2"}}},
        });
        assert_eq!(spec, expected);
        let spec: ConfigMapSyncSpec = serde_json::from_value(spec).unwrap();
        assert!(validate(Some(&spec)).is_ok());
    }

    #[test]
    fn what_has_a_wildcard_is_a_pattern() {
        let made = spec("settings --account sync --source a --to foo,app-*,b?r --to baz");
        assert_eq!(made["targets"], json!({"namespaces": ["foo", "baz"], "patterns": ["app-*", "b?r"]}));
        let alone = spec("settings --account sync --source a --to *");
        assert_eq!(alone["targets"], json!({"patterns": ["*"]}));
    }

    #[test]
    fn sources_are_selected_where_a_star_stands_for_their_name() {
        let made =
            spec("all --account sync --source Secret/src/* --source-selector a=1 --name-prefix x- --to foo");
        let source = json!({"kind": "Secret", "namespace": "src", "selector": {"matchLabels": {"a": "1"}}});
        assert_eq!(made["source"], source);
        assert_eq!(made["targets"], json!({"namespaces": ["foo"], "namePrefix": "x-"}));
        for (line, field) in [
            ("all --account sync --source * --to foo", "spec.source.selector"),
            ("all --account sync --source a --source-selector a=1 --to foo", "spec.source.name"),
            ("all --account sync --source a --name-suffix - --to foo", "spec.targets.nameSuffix"),
        ] {
            let spec: ConfigMapSyncSpec = serde_json::from_value(spec(line)).unwrap();
            assert_eq!(validate(Some(&spec)).unwrap_err()[0].field(), field, "{line}");
        }
    }

    #[test]
    fn a_kind_makes_a_resource_sync() {
        let line = "closed --account sync --kind NetworkPolicy --api-version networking.k8s.io/v1 --source a --to foo";
        let made = spec(line);
        let source = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "namespace": "team-a", "name": "a"});
        assert_eq!(made["source"], source);
        let made: ResourceSyncSpec = serde_json::from_value(made).unwrap();
        assert!(validate_resource(Some(&made)).is_ok());
        assert_eq!(flags(line).two_kinds(), None);
        let said = flags(&line.replace("--source a", "--source Secret/a")).two_kinds().unwrap();
        assert!(said.ends_with("leave Secret/ out of --source"), "{said}");
        for part in ["--kind Service", "--api-version v1", "--kind Service --api-version v1 --merge b"] {
            let line = format!("create a --account sync --source a --to foo {part}");
            assert!(Line::try_parse_from(line.split(' ')).is_err(), "{part}");
        }
    }

    #[test]
    fn several_sources_are_merged_by_their_names_or_by_their_labels() {
        let made = spec("ca --account sync --source src/roots,extra --merge ca --join ca.crt --to foo");
        assert_eq!(
            made["source"],
            json!({"kind": "ConfigMap", "namespace": "src", "names": ["roots", "extra"]})
        );
        assert_eq!((&made["targets"]["name"], &made["merge"]), (&json!("ca"), &json!({"join": ["ca.crt"]})));
        let made = spec("ca --account sync --source * --source-selector a=1 --merge ca --to foo");
        assert_eq!((made["source"].get("names"), &made["merge"]), (None, &json!({})));
        let alone = spec("ca --account sync --source a,b --to foo");
        let alone: ConfigMapSyncSpec = serde_json::from_value(alone).unwrap();
        assert_eq!(validate(Some(&alone)).unwrap_err()[0].field(), "spec.source.names");
    }

    #[test]
    fn a_source_says_as_much_as_is_needed() {
        let source = |text: &str| text.parse::<SourceFlag>().map(|s| (s.kind, s.namespace, s.name));
        let own = |namespace: &str| Some(namespace.to_owned());
        assert_eq!(source("a"), Ok((None, None, "a".into())));
        assert_eq!(source("b/a"), Ok((None, own("b"), "a".into())));
        assert_eq!(source("Secret/a"), Ok((Some(SourceKind::Secret), None, "a".into())));
        assert_eq!(source("ConfigMap/b/a"), Ok((Some(SourceKind::ConfigMap), own("b"), "a".into())));
        assert_eq!(source("secret/a"), Ok((None, own("secret"), "a".into())));
        for wrong in ["", "a/", "/a", "Pod/b/a", "Secret/"] {
            assert!(source(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn where_the_copies_go_may_be_forgotten_and_is_then_named_by_the_rules() {
        let spec: ConfigMapSyncSpec =
            serde_json::from_value(spec("settings --account sync --source a")).unwrap();
        let faults = validate(Some(&spec)).unwrap_err();
        assert_eq!(faults[0].field(), "spec.targets", "{faults:?}");
        let said = Line::try_parse_from(["create", "settings", "--source", "a"]).err().unwrap().to_string();
        assert!(said.contains("--account") && said.contains("--grant"), "{said}");
    }

    #[test]
    fn an_account_that_is_made_is_called_like_the_sync() {
        let made = spec("settings --source a --to foo --grant");
        assert_eq!(made["serviceAccount"], json!({"name": "settings"}));
        let named = spec("settings --source a --to foo --grant --account sync");
        assert_eq!(named["serviceAccount"], json!({"name": "sync"}));
    }
}
