use super::*;
use proptest::prelude::*;

const DIGEST: &str = "sha256:4bcff63911fcb4448bd4fdacec207030997caf25e9bea4045fa6c8c44de311d1";

#[test]
fn pages_of_names() {
    assert_eq!(repositories(br#"{"repositories":["a","b/c"]}"#).unwrap(), ["a", "b/c"]);
    assert_eq!(tags(br#"{"name":"a","tags":["1"]}"#).unwrap(), ["1"]);
    assert_eq!(tags(br#"{"name":"a","tags":null}"#).unwrap(), Vec::<String>::new());
    for bad in ["", "{}", "[]", r#"{"tags":{}}"#, r#"{"tags":[1]}"#, "<html>"] {
        assert!(tags(bad.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn a_next_page_is_of_the_same_host() {
    let origin = "http://registry.lan:5000";
    for (link, want) in [
        (r#"</v2/_catalog?last=b&n=2>; rel="next""#, Some("/v2/_catalog?last=b&n=2")),
        ("<http://registry.lan:5000/v2/_catalog?last=b>; rel=next", Some("/v2/_catalog?last=b")),
        ("</v2/_catalog?last=b>;rel=\"next\", </v2/x>; rel=first", Some("/v2/_catalog?last=b")),
        ("<http://evil.lan/v2/_catalog>; rel=\"next\"", None),
        ("<//evil.lan/v2/_catalog>; rel=\"next\"", None),
        ("<http://registry.lan:50001/v2/_catalog>; rel=\"next\"", None),
        ("</admin>; rel=\"next\"", None),
        ("</v2/_catalog>; rel=\"prev\"", None),
        ("/v2/_catalog", None),
        ("", None),
    ] {
        assert_eq!(next_page(link, origin).as_deref(), want, "{link}");
    }
}

#[test]
fn what_is_wanted_for_access() {
    let of = |scheme: &str, realm: &str, service: Option<&str>, scope: Option<&str>| {
        Some(Challenge {
            scheme: scheme.to_owned(),
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
        })
    };
    for (header, want) in [
        (r#"Basic realm="Registry Realm""#, of("Basic", "Registry Realm", None, None)),
        (
            r#"Bearer realm="https://h.lan/service/token",service="harbor",scope="repository:a:pull,push""#,
            of("Bearer", "https://h.lan/service/token", Some("harbor"), Some("repository:a:pull,push")),
        ),
        ("Bearer service=x, realm=https://a/b", of("Bearer", "https://a/b", Some("x"), None)),
        ("Negotiate", of("Negotiate", "", None, None)),
        (r#"Basic realm="open"#, of("Basic", "", None, None)),
        ("", None),
        ("<b> x", None),
    ] {
        assert_eq!(challenge(header), want, "{header}");
    }
}

#[test]
fn what_a_tag_leads_to() {
    let index = r#"{"manifests":[
        {"platform":{"os":"linux","architecture":"amd64"}},
        {"platform":{"os":"linux","architecture":"arm","variant":"v7"}},
        {"platform":{"os":"unknown","architecture":"unknown"}}, {"digest":"x"}]}"#;
    let Ok(ImageManifest::Index(builds)) = manifest(index.as_bytes()) else { panic!() };
    assert_eq!(builds.iter().map(ToString::to_string).collect::<Vec<_>>(), ["linux/amd64", "linux/arm/v7"]);
    let one = format!(r#"{{"schemaVersion":2,"config":{{"digest":"{DIGEST}"}}}}"#);
    assert_eq!(manifest(one.as_bytes()), Ok(ImageManifest::Image { config: DIGEST.to_owned() }));
    for (bad, why) in [
        (r#"{"schemaVersion":1,"architecture":"amd64"}"#, "schema 1"),
        (r#"{"config":{"digest":"../../x"}}"#, "not an image manifest"),
        ("{}", "not an image manifest"),
        ("<html>", "not JSON"),
    ] {
        assert!(manifest(bad.as_bytes()).unwrap_err().contains(why), "{bad}");
    }
    let config = br#"{"architecture":"arm64","os":"linux","variant":""}"#;
    assert_eq!(built_for(config).unwrap().to_string(), "linux/arm64");
    assert_eq!(built_for(b"{}"), None);
}

#[test]
fn what_a_machine_can_run() {
    let all = |names: &[&str]| names.iter().map(|name| platform(name).unwrap()).collect::<Vec<_>>();
    for (wanted, builds, want) in [
        ("linux/arm64", &["linux/amd64", "linux/arm64"][..], Fit::Native),
        ("linux/arm64", &["linux/arm64/v8"], Fit::Native),
        ("linux/arm64/v8", &["linux/arm64"], Fit::Native),
        ("linux/arm64", &["linux/amd64", "linux/arm/v7"], Fit::Arm32),
        ("linux/arm64", &["linux/amd64", "windows/arm64"], Fit::None),
        ("linux/amd64", &["linux/arm/v7"], Fit::None),
        ("linux/arm/v7", &["linux/arm/v6"], Fit::Native),
        ("linux/arm/v6", &["linux/arm/v7"], Fit::None),
        ("linux/arm64", &[], Fit::None),
    ] {
        assert_eq!(fit(&platform(wanted).unwrap(), &all(builds)), want, "{wanted} of {builds:?}");
    }
    for bad in ["", "arm64", "linux/", "linux/arm64/v8/x", "linux/arm 64", "../.."] {
        assert!(platform(bad).is_err(), "{bad}");
    }
}

#[test]
fn names_of_images() {
    let by_digest = format!("app@{DIGEST}");
    for (text, want) in [
        ("app:1.0", "app:1.0"),
        ("app", "app:latest"),
        ("team/app_flask:v1", "team/app_flask:v1"),
        ("registry.lan:5000/app:1.0", "app:1.0"),
        (&by_digest, &by_digest),
    ] {
        assert_eq!(image(text, "registry.lan:5000").unwrap().to_string(), want);
    }
    for (bad, why) in [
        ("App:1", "capital letters"),
        ("other.lan:5000/app:1", "another registry"),
        ("app:", "no valid tag"),
        ("app@latest", "no valid tag"),
        ("app:a b", "no valid tag"),
        ("a?b", "is not a valid repository name"),
        ("../x", "is not a valid repository name"),
        ("a//b", "is not a valid repository name"),
        ("", "is not a valid repository name"),
    ] {
        let error = image(bad, "registry.lan:5000").unwrap_err();
        assert!(error.contains(why), "{bad}: {error}");
    }
}

proptest! {
    #[test]
    fn never_panics(text in "\\PC*|(Bearer |realm=|\"|,|<|>|; rel=next|/v2/|:|@|\\{|\\}){0,20}") {
        let _ = (challenge(&text), next_page(&text, "http://a"), image(&text, "a:1"), platform(&text));
        let _ = (manifest(text.as_bytes()).is_ok(), tags(text.as_bytes()).is_ok(), built_for(text.as_bytes()));
    }
}
