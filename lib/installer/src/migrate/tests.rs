use http::Method;

use super::*;
use crate::Webhook;
use crate::fake_api::{FakeApi, RequestFate};
use crate::plan::complete;

const SYNCS: &str = "configmapsyncs.weaver.example.com";

/// All definitions installed; `old` of 20 ConfigMapSyncs stored at v1alpha1.
fn server(old: usize) -> FakeApi {
    let api = FakeApi::new();
    let webhook =
        Webhook { service: None, url: "https://127.0.0.1:9443/convert".into(), ca_bundle: "ca".into() };
    api.with(|stored| {
        for definition in weaver_api::crds::all() {
            stored.put(serde_json::to_value(complete(definition, &webhook)).unwrap());
        }
        stored.definitions.get_mut(SYNCS).unwrap()["status"]["storedVersions"] =
            json!(["v1alpha1", "v1beta1"]);
        for n in 0..20 {
            let version = if n < old { "v1alpha1" } else { "v1beta1" };
            stored.objects.insert(format!("s{n:02}"), (version.into(), 10 + n as u64));
        }
    });
    api
}

async fn run(api: &FakeApi) -> Result<Migrated, MigrateError> {
    Ok(migrate(&api.client(), |_| {}).await?.remove(0))
}

fn stored_at(api: &FakeApi, version: &str) -> usize {
    api.with(|stored| stored.objects.values().filter(|(at, _)| at == version).count())
}

fn noted(api: &FakeApi) -> serde_json::Value {
    api.with(|stored| stored.definitions[SYNCS]["status"]["storedVersions"].clone())
}

#[tokio::test(start_paused = true)]
async fn every_object_is_rewritten_and_the_older_version_dropped() {
    let api = server(12);
    let mut lines = Vec::new();
    api.with(|stored| stored.page = 8);
    let report = migrate(&api.client(), |progress| lines.push(progress.to_string())).await.unwrap();
    let dropped = vec!["v1alpha1".to_owned()];
    assert_eq!(report[0], Migrated { name: SYNCS.into(), dropped, rewritten: 12, unchanged: 8, gone: 0 });
    assert_eq!((stored_at(&api, "v1alpha1"), noted(&api)), (0, json!(["v1beta1"])));
    let name = SYNCS;
    assert_eq!(
        lines,
        [
            format!("{name}: 8 objects done, 12 to go"),
            format!("{name}: 16 objects done, 4 to go"),
            format!("{name}: 20 objects done")
        ]
    );
    assert!(report[0].to_string().contains("12 objects rewritten, 8 were already"), "{}", report[0]);
    assert!(report[1].to_string().contains("nothing to do"), "{}", report[1]);
}

#[tokio::test(start_paused = true)]
async fn a_second_run_writes_nothing() {
    let api = server(12);
    run(&api).await.unwrap();
    api.with(|stored| stored.writes.clear());
    let again = run(&api).await.unwrap();
    assert_eq!((again.rewritten, again.dropped.len()), (0, 0));
    assert!(api.with(|stored| stored.writes.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_rewritten_keeps_the_older_version() {
    let api = server(20);
    api.hook(|_, method, path| match (method.as_str(), path.rsplit('/').next()) {
        ("PATCH", Some(name)) if name.starts_with("s0") => RequestFate::Refused(422, "its spec is wrong"),
        ("PATCH", Some("s11" | "s12")) => RequestFate::Refused(403, "a policy says no"),
        _ => RequestFate::Answered,
    });
    let words = run(&api).await.unwrap_err().to_string();
    for expected in [
        "12 of its objects",
        "v1alpha1 stays",
        "default/s00: its spec is wrong",
        "and 2 more",
        "run it again",
    ] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    assert_eq!(noted(&api), json!(["v1alpha1", "v1beta1"]));
    // Once they can, it continues from there.
    api.hook(|_, _, _| RequestFate::Answered);
    let migrated = run(&api).await.unwrap();
    assert_eq!((migrated.rewritten, migrated.unchanged, noted(&api)), (12, 8, json!(["v1beta1"])));
}

#[tokio::test(start_paused = true)]
async fn what_the_stored_version_refuses_is_written_through_the_older_one() {
    let api = server(20);
    api.hook(|_, method, path| {
        let at_new = path.contains("/v1beta1/") && path.ends_with("/s03");
        if *method == Method::PATCH && at_new {
            RequestFate::Refused(422, "required")
        } else {
            RequestFate::Answered
        }
    });
    assert_eq!(run(&api).await.unwrap().rewritten, 20);
    assert!(api.with(|stored| stored.writes.iter().any(|write| write.contains("/v1alpha1/"))));
}

#[tokio::test(start_paused = true)]
async fn objects_that_others_change_or_delete_meanwhile_are_no_failure() {
    let api = server(20);
    let mut touched = false;
    api.hook(move |stored, method, path| {
        match (method.as_str(), path.rsplit('/').next()) {
            ("PATCH", Some("s01")) if !std::mem::replace(&mut touched, true) => {
                // Written at today's version.
                stored.objects.insert("s01".into(), ("v1beta1".into(), 99));
            }
            ("PATCH", Some("s02")) => drop(stored.objects.remove("s02")),
            _ => {}
        }
        RequestFate::Answered
    });
    let migrated = run(&api).await.unwrap();
    assert_eq!((migrated.rewritten, migrated.unchanged, migrated.gone), (18, 1, 1));
    assert!(migrated.to_string().contains("1 were deleted meanwhile"), "{migrated}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_always_changes_is_given_up_and_named() {
    let api = server(20);
    api.hook(|stored, method, path| {
        if *method == Method::PATCH && path.ends_with("/s05") {
            stored.objects.get_mut("s05").unwrap().1 += 1;
        }
        RequestFate::Answered
    });
    let words = run(&api).await.unwrap_err().to_string();
    assert!(words.contains("1 of its objects") && words.contains("default/s05"), "{words}");
    assert_eq!(noted(&api), json!(["v1alpha1", "v1beta1"]));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_grew_too_old_is_begun_again() {
    let api = server(20);
    let mut lists = 0;
    api.with(|stored| stored.page = 8);
    api.hook(move |_, method, path| {
        let is_list = *method == Method::GET && path.ends_with("/configmapsyncs");
        lists += usize::from(is_list);
        if is_list && lists == 2 { RequestFate::Refused(410, "too old") } else { RequestFate::Answered }
    });
    let migrated = run(&api).await.unwrap();
    // The first page was rewritten before.
    assert_eq!((migrated.rewritten, migrated.unchanged), (12, 8));
    assert_eq!(stored_at(&api, "v1alpha1"), 0);

    let api = server(20);
    api.hook(|_, _, path| {
        if path.ends_with("/configmapsyncs") {
            RequestFate::Refused(410, "too old")
        } else {
            RequestFate::Answered
        }
    });
    assert!(run(&api).await.unwrap_err().to_string().contains("listing the objects"));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_killed_at_any_write_is_finished_by_the_next() {
    // The first objects, one in the middle, the last, the status.
    for at in [0, 1, 10, 19, 20] {
        for answer_lost in [false, true] {
            let api = server(20);
            let mut seen = 0;
            api.hook(move |_, method, _| {
                seen += usize::from(*method == Method::PATCH);
                match (seen <= at, seen == at + 1 && answer_lost) {
                    (true, _) => RequestFate::Answered,
                    (_, true) => RequestFate::Lost,
                    _ => RequestFate::Refused(403, "killed"),
                }
            });
            let cut_off = run(&api).await;
            assert!(cut_off.is_err(), "write {at} was not reached");
            let safe = stored_at(&api, "v1alpha1") == 0 || noted(&api) == json!(["v1alpha1", "v1beta1"]);
            assert!(safe, "dropped too early, at write {at}");
            api.hook(|_, _, _| RequestFate::Answered);
            run(&api).await.unwrap();
            assert_eq!((stored_at(&api, "v1alpha1"), noted(&api)), (0, json!(["v1beta1"])));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_changes_meanwhile_keeps_its_older_version() {
    let api = server(20);
    api.hook(|stored, method, path| {
        if *method == Method::PATCH && path.ends_with("/status") {
            // Its storage version changed and back, say.
            let same = stored.definitions[SYNCS].clone();
            stored.put(same);
        }
        RequestFate::Answered
    });
    let error = run(&api).await.unwrap_err();
    assert!(matches!(error, MigrateError::Changed(_)), "{error}");
    assert_eq!(noted(&api), json!(["v1alpha1", "v1beta1"]));
}

#[tokio::test(start_paused = true)]
async fn a_status_that_others_write_is_read_again() {
    let api = server(20);
    let mut touched = false;
    api.hook(move |stored, method, path| {
        if *method == Method::PATCH && path.ends_with("/status") && !std::mem::replace(&mut touched, true) {
            stored.definitions.get_mut(SYNCS).unwrap()["metadata"]["resourceVersion"] = json!("777");
        }
        RequestFate::Answered
    });
    run(&api).await.unwrap();
    assert_eq!(noted(&api), json!(["v1beta1"]));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_installed_or_stores_another_version_is_refused() {
    let api = FakeApi::new();
    let words = run(&api).await.unwrap_err().to_string();
    assert!(words.contains(SYNCS) && words.contains("weaver crd install"), "{words}");

    let api = server(20);
    api.with(|stored| {
        for version in stored.definitions.get_mut(SYNCS).unwrap()["spec"]["versions"].as_array_mut().unwrap()
        {
            version["storage"] = json!(version["name"] == "v1alpha1");
        }
    });
    let words = run(&api).await.unwrap_err().to_string();
    assert!(words.contains("stores v1alpha1, and this release v1beta1"), "{words}");
    assert!(api.with(|stored| stored.writes.is_empty()));
}

#[test]
fn objects_are_written_at_todays_version_first() {
    let definition = weaver_api::crds::all().remove(0);
    let versions: Vec<_> = writable(&definition).into_iter().map(|resource| resource.version).collect();
    assert_eq!(versions, ["v1beta1", "v1alpha1"]);
    let mut reversed = definition.clone();
    reversed.spec.versions.reverse();
    assert_eq!(writable(&reversed)[0].version, "v1beta1");
    reversed.spec.versions[0].served = false;
    assert_eq!(writable(&reversed).len(), 1);
}
