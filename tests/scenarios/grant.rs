//! `--grant`: account, rights and resource in one command, with the rights of the user and no others.

use std::sync::Arc;

use http::{Method, Response, StatusCode};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::client::Body;
use serde_json::{Value, json};
use weaver_tests::cli::{done, ended, program, weaver};
use weaver_tests::person;
use weaver_tests::proxy::Hooks;
use weaver_tests::sync_kinds::SyncedKind;
use weaver_tests::world::World;

#[tokio::test]
async fn one_command_makes_account_rights_and_sync_and_the_copy_follows() {
    for of in SyncedKind::BOTH {
        let world = World::new("grant-create").await;
        of.define(&world).await;
        let (team, foo, bar) =
            (world.namespace("team").await, world.namespace("foo").await, world.namespace("bar").await);
        world.is_tenant(&team);
        of.object(&world, &team, &[("a", "1")]).await;
        let to = format!("{foo},{bar}");
        let create = ["sync", "create", "sync", "-n", &team, "--source", "settings", "--to", &to, "--grant"];
        let create = [&create[..], of.flags()].concat();

        // What a dry run prints is the same, and makes nothing.
        let manifest = done(&[&create[..], &["--dry-run"]].concat()).await;
        let objects: Vec<Value> = serde_saphyr::from_multiple(&manifest).unwrap();
        let kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        let roles = ["Role", "RoleBinding"];
        assert_eq!(kinds, [&["ServiceAccount"][..], &roles.repeat(4), &[of.of_sync()]].concat());
        let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), &team);
        assert!(accounts.get_opt("sync").await.unwrap().is_none());

        let said = done(&create).await;
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], format!("ServiceAccount {team}/sync"));
        assert_eq!(lines.len(), 1 + 8 + 1, "{said}");
        let made = format!("{}.weaver.example.com/sync created", of.of_sync().to_lowercase());
        assert_eq!(lines.last(), Some(&made.as_str()));
        for target in [&foo, &bar] {
            of.holds(&world, target, &[("a", "1")]).await;
        }
        of.condition(&world, &team, "Ready", "True", "Synced").await;
        of.object(&world, &team, &[("a", "2")]).await;
        of.holds(&world, &bar, &[("a", "2")]).await;

        // The account got what it needs and nothing else.
        let bound: Api<RoleBinding> = Api::namespaced(world.client.clone(), &foo);
        assert_eq!(bound.list(&ListParams::default()).await.unwrap().items.len(), 1);
        let granted: Api<Role> = Api::namespaced(world.client.clone(), &team);
        let names: Vec<_> = granted.list(&ListParams::default()).await.unwrap().items;
        assert_eq!(names.len(), 2, "minting and the source: {names:?}");

        weaver(&create).await.refused("exists already and was not changed: `weaver sync explain sync");
        let said = done(&["sync", "explain", "sync", "-n", &team, "--grant", "--yes"]).await;
        assert!(said.ends_with(&format!("ServiceAccount {team}/sync lacks no right\n")), "{said}");
        world.finish().await;
    }
}

#[tokio::test]
async fn a_pattern_is_granted_where_it_matches_and_later_again() {
    let world = World::new("grant-pattern").await;
    let (team, app) = (world.namespace("team").await, world.namespace("app-1").await);
    world.is_tenant(&team);
    world.config_map(&team, "settings", &[("a", "1")]).await;
    let to = world.name("app-*");
    let create = ["sync", "create", "mine", "-n", &team, "--source", "settings", "--to", &to, "--grant"];
    let dry = weaver(&[&create[..], &["--dry-run"]].concat()).await;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&dry.out).unwrap();
    assert_eq!(objects.last().unwrap()["spec"]["targets"], json!({"patterns": [to]}), "{dry:?}");
    assert!(dry.err.contains(&format!("targets that match {to} now: 1")), "{dry:?}");
    done(&create).await;
    world.holds(&app, "settings", &[("a", "1")]).await;

    let later = world.namespace("app-2").await;
    let said = done(&["sync", "explain", "mine", "-n", &team, "--grant", "--yes"]).await;
    assert!(said.contains(&format!("targets that match {to} now: 2")), "{said}");
    world.holds(&later, "settings", &[("a", "1")]).await;
    world.condition(&team, "mine", "Ready", "True", "Synced").await;
    world.finish().await;
}

#[tokio::test]
async fn a_pattern_of_all_names_grants_nothing_in_namespaces_of_the_system() {
    let world = World::new("grant-all").await;
    let (team, foo) = (world.namespace("team").await, world.namespace("foo").await);
    let create =
        ["sync", "create", "mine", "-n", &team, "--source", "settings", "--to", "*", "--grant", "--dry-run"];
    let said = weaver(&create).await;
    assert!(said.done, "{said:?}");
    assert!(said.out.contains(&format!("namespace: {foo}\n")), "{said:?}");
    assert!(
        !said.out.contains("namespace: kube-system") && said.err.contains("nothing is granted in "),
        "{said:?}"
    );
    let named = [&create[..], &["--to", "kube-public"]].concat();
    let said = weaver(&named).await;
    assert!(
        said.out.contains("namespace: kube-public\n") && !said.out.contains("namespace: kube-system"),
        "{said:?}"
    );
    world.finish().await;
}

#[tokio::test]
async fn what_explain_names_is_granted_after_a_yes_and_the_sync_is_retried_at_once() {
    let world = World::new("grant-explain").await;
    let (team, foo) = world.synced().await;
    let (bar, gone) = (world.namespace("bar").await, world.name("gone"));
    for of in SyncedKind::BOTH {
        of.grant(&world, &team, &[&team, &foo]).await;
        of.object(&world, &team, &[("a", "1")]).await;
        of.sync(&world, &team, of.spec(&world, &team, &[&foo, &bar, &gone])).await;
        of.condition(&world, &team, "Ready", "False", "MissingRights").await;
        let explain = ["sync", "explain", "sync", "-n", &team, "--grant"];
        let said = weaver(&explain).await;
        assert!(!said.done && said.err.contains("no terminal to ask on; pass --yes"), "{said:?}");
        let role = format!(
            "Role {bar}/weaver:{team}:sync:target:{}: create, delete, get",
            of.several().to_lowercase()
        );
        assert!(said.out.lines().any(|found| found.starts_with(&role)), "{said:?}");
        assert!(said.out.contains(&format!("namespace {gone} does not exist")), "{said:?}");
        of.lacks(&world, &bar).await;
        done(&[&explain[..], &["--yes"]].concat()).await;
        of.holds(&world, &bar, &[("a", "1")]).await;
    }
    world.finish().await;
}

#[tokio::test]
async fn who_administers_both_namespaces_grants_and_no_one_grants_more_than_they_hold() {
    let world = World::new("grant-person").await;
    let (team, foo, bar) =
        (world.namespace("team").await, world.namespace("foo").await, world.namespace("bar").await);
    world.config_map(&team, "settings", &[("a", "1")]).await;
    let directory = tempfile::tempdir().unwrap();
    let proxy = person::proxy(Hooks::none()).await;
    let kubeconfig = person::kubeconfig(&world, &team, &proxy, directory.path()).await;
    world.is_tenant(&team);
    let name = kubeconfig.file_stem().unwrap().to_str().unwrap();
    let subjects = json!([{"kind": "ServiceAccount", "name": name, "namespace": team}]);
    let all = |groups: &[&str]| json!([{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}]);
    world.apply_role(&foo, "all", all(&["*"]), subjects.clone()).await;
    // To write Roles and bindings, and no right on what they grant.
    let roles = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"],
                        "verbs": ["get", "create", "patch"]}]);
    world.apply_role(&bar, "roles", roles, subjects).await;
    let create = async |name: &str, to: &str| {
        let line = ["sync", "create", name, "-n", &team, "--source", "settings", "--to", to, "--grant"];
        let mut command = program("weaver", &line);
        command.env("KUBECONFIG", &kubeconfig);
        ended(command).await
    };
    let said = create("fine", &foo).await;
    assert!(said.done, "who may not ask about others' rights grants what is needed: {said:?}");
    world.holds(&foo, "settings", &[("a", "1")]).await;
    let said = create("greedy", &bar).await;
    for part in ["nothing was granted", "is attempting to grant RBAC permissions not currently held"] {
        assert!(!said.done && said.err.contains(part), "{part}: {said:?}");
    }
    assert!(world.accounts(&team).get_opt("greedy").await.unwrap().is_none());
    let said = create("wide", &world.name("*")).await;
    assert!(!said.done && said.err.contains("nothing was granted"), "who may not list namespaces: {said:?}");
    for name in ["greedy", "wide"] {
        assert!(world.syncs(&team).get_opt(name).await.unwrap().is_none(), "{name}");
    }
    world.lacks(&bar, "settings").await;
    world.finish().await;
}

#[tokio::test]
async fn nothing_is_granted_for_a_sync_that_is_refused() {
    let world = World::new("grant-refused").await;
    let (team, foo) = (world.namespace("team").await, world.namespace("foo").await);
    let mut hooks = Hooks::none();
    hooks.instead = Arc::new(|request| {
        let is_sync = request.method == Method::POST && request.uri.path().ends_with("/configmapsyncs");
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403,
                            "reason": "Forbidden", "message": "no syncs on Fridays"});
        let body = Body::from(status.to_string().into_bytes());
        is_sync.then(|| Response::builder().status(StatusCode::FORBIDDEN).body(body).unwrap())
    });
    let directory = tempfile::tempdir().unwrap();
    let proxy = person::proxy(hooks).await;
    let kubeconfig = person::kubeconfig(&world, &team, &proxy, directory.path()).await;
    let name = kubeconfig.file_stem().unwrap().to_str().unwrap();
    let subjects = json!([{"kind": "ServiceAccount", "name": name, "namespace": team}]);
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    world.apply_role(&foo, "all", all, subjects).await;
    let line = ["sync", "create", "sync", "-n", &team, "--source", "settings", "--to", &foo, "--grant"];
    let mut command = program("weaver", &line);
    command.env("KUBECONFIG", &kubeconfig);
    ended(command).await.refused("nothing was granted");
    assert!(world.accounts(&team).get_opt("sync").await.unwrap().is_none());
    for namespace in [&team, &foo] {
        assert_eq!(world.granted(namespace).await, Vec::<String>::new(), "{namespace}");
    }
    world.finish().await;
}

#[tokio::test]
async fn a_tenant_is_made_from_nothing_and_twice_is_as_good() {
    let world = World::new("grant-tenant").await;
    // What the audit log is to have seen of this world.
    world.namespace("other").await;
    let team = world.name("team");
    let manifest = done(&["tenant", "init", &team, "--dry-run"]).await;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&manifest).unwrap();
    let kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Namespace", "ServiceAccount", "Role", "RoleBinding"]);
    let said = done(&["tenant", "init", &team]).await;
    assert!(said.starts_with(&format!("Namespace {team}\nServiceAccount {team}/sync\n")), "{said}");
    let again = done(&["tenant", "init", &team]).await;
    assert_eq!(again, format!("the operator may act as ServiceAccount {team}/sync\n"));
    done(&["tenant", "check", &team, "sync"]).await;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces.delete(&team, &DeleteParams::default()).await.unwrap();
    world.finish().await;
}

/// A RoleBinding by someone who waits for the Role to be filled.
fn bound_to_mallory(name: &str, role: &str) -> RoleBinding {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "mallory"}],
    }))
    .unwrap()
}

#[tokio::test]
async fn leave_to_mint_is_granted_to_no_one_else_and_not_taken_back_in_words_alone() {
    let world = World::new("grant-minting").await;
    let (team, foo, _) = world.without_minting().await;
    let bindings: Api<RoleBinding> = Api::namespaced(world.client.clone(), &team);
    let roles: Api<Role> = Api::namespaced(world.client.clone(), &team);
    let allow = ["tenant", "allow", &team, "sync"];
    bindings.create(&PostParams::default(), &bound_to_mallory("theirs", "weaver-mint-sync")).await.unwrap();
    let said = weaver(&allow).await;
    assert!(!said.done && said.err.contains("nothing was granted"), "{said:?}");
    assert!(roles.get_opt("weaver-mint-sync").await.unwrap().is_none());
    bindings.delete("theirs", &DeleteParams::default()).await.unwrap();
    done(&allow).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;

    let (mut role, mut binding) = weaver_api::minting::grant(&team, "sync");
    role.metadata.name = Some("by-hand".into());
    binding.metadata.name = Some("by-hand".into());
    binding.role_ref.name = "by-hand".into();
    roles.create(&PostParams::default(), &role).await.unwrap();
    bindings.create(&PostParams::default(), &binding).await.unwrap();
    let revoke = ["tenant", "revoke", &team, "sync"];
    let said = weaver(&revoke).await;
    assert!(!said.done && said.err.contains("may still act"), "{said:?}");
    bindings.delete("by-hand", &DeleteParams::default()).await.unwrap();
    done(&revoke).await;

    // What someone has changed since is left to them.
    let (ours, params) = ("weaver-mint-sync", PostParams::default());
    done(&allow).await;
    let mut wider = roles.get(ours).await.unwrap();
    let read = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]});
    wider.rules.as_mut().unwrap().push(serde_json::from_value(read).unwrap());
    roles.replace(ours, &params, &wider).await.unwrap();
    let said = weaver(&revoke).await;
    assert!(said.done && said.err.contains(&format!("role {team}/{ours} is not as")), "{said:?}");
    assert!(bindings.get_opt(ours).await.unwrap().is_none() && roles.get_opt(ours).await.unwrap().is_some());
    done(&allow).await;
    let mut shared = bindings.get(ours).await.unwrap();
    shared.subjects.as_mut().unwrap().extend(bound_to_mallory(ours, ours).subjects.unwrap());
    bindings.replace(ours, &params, &shared).await.unwrap();
    let said = weaver(&revoke).await;
    assert!(said.done && said.err.contains(&format!("rolebinding {team}/{ours} is not as")), "{said:?}");
    assert!(bindings.get_opt(ours).await.unwrap().is_some() && roles.get_opt(ours).await.unwrap().is_none());
    // What it is bound to now is someone else's, and still lets the operator in.
    wider.metadata.resource_version = None;
    roles.create(&params, &wider).await.unwrap();
    let said = weaver(&revoke).await;
    assert!(!said.done && said.err.contains("may still act"), "{said:?}");
    world.finish().await;
}

/// The name of the Role can be guessed, and an empty one be bound by anyone who may write Roles and no Secret.
#[tokio::test]
async fn a_role_that_someone_has_bound_to_themselves_is_not_filled() {
    let world = World::new("grant-bound").await;
    let (team, foo) = world.synced().await;
    let bar = world.namespace("bar").await;
    let role = format!("weaver:{team}:sync:target:configmaps");
    let bindings: Api<RoleBinding> = Api::namespaced(world.client.clone(), &bar);
    world.sync(&team, "sync", world.spec(&team, &[&foo, &bar])).await;
    world.condition(&team, "sync", "Ready", "False", "MissingRights").await;
    let explain = ["sync", "explain", "sync", "-n", &team, "--grant", "--yes"];
    let roles: Api<Role> = Api::namespaced(world.client.clone(), &bar);
    // Under the name of ours, too, which is as easy to guess.
    for name in ["theirs", &role] {
        bindings.create(&PostParams::default(), &bound_to_mallory(name, &role)).await.unwrap();
        let said = weaver(&explain).await;
        assert!(!said.done && said.err.contains("nothing was granted"), "{said:?}");
        assert!(said.err.contains(&format!("RoleBinding {bar}/{name} gives")), "{said:?}");
        assert!(roles.get_opt(&role).await.unwrap().is_none(), "not even in part");
        bindings.delete(name, &DeleteParams::default()).await.unwrap();
    }
    done(&explain).await;
    world.holds(&bar, "settings", &[("a", "1")]).await;
    world.finish().await;
}
