use super::super::sync::CopyState;
use super::super::sync::tests::sync;
use super::super::token::tests::token;
use super::*;

fn some() -> Vec<Arc<SyncView>> {
    let other = SyncView { account: "other".into(), ..sync("c", "True", &[("zoo", "Synced")]) };
    let none = SyncView { account: String::new(), ..sync("d", "False", &[]) };
    let syncs = [
        other,
        none,
        sync("a", "True", &[("foo", "Synced"), ("bar", "Synced")]),
        sync("b", "False", &[("foo", "Failed"), ("team-a", "Synced")]),
    ];
    syncs.map(Arc::new).to_vec()
}

#[test]
fn an_account_has_its_sources_and_the_worst_state_of_each_namespace() {
    let syncs = some();
    let found = account_matrix(&syncs, &[], &AccountQuery::default());
    let names: Vec<&str> = found.rows.iter().map(|row| row.account.name).collect();
    assert_eq!(names, ["copier", "other"], "the one with a problem comes first");
    let copier = &found.rows[0].account;
    let names: Vec<&str> = copier.syncs.iter().map(|sync| sync.summary.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let sources: Vec<&str> = copier.sources.iter().copied().collect();
    assert_eq!(sources, ["ConfigMap team-a/a", "ConfigMap team-a/b"]);
    let states: Vec<_> =
        copier.sorted_targets().iter().map(|target| (&*target.namespace, target.state)).collect();
    let synced = CopyState::Synced;
    assert_eq!(states, [("foo", CopyState::Failed), ("bar", synced), ("team-a", synced)]);
    assert!(
        account(&syncs, &[], "team-a", "other").is_some() && account(&syncs, &[], "x", "other").is_none()
    );
}

#[test]
fn the_table_says_where_an_account_reads_and_where_it_writes() {
    let syncs = some();
    let found = account_matrix(&syncs, &[], &AccountQuery::default());
    assert_eq!(found.columns, ["foo", "bar", "team-a", "zoo"]);
    let cells = |row: &AccountRow<'_>| {
        let cell = |cell: &AccountCell<'_>| (cell.reads, cell.writes.map(|target| target.state));
        row.cells.iter().map(cell).collect::<Vec<_>>()
    };
    let synced = Some(CopyState::Synced);
    let failed = Some(CopyState::Failed);
    assert_eq!(cells(&found.rows[0]), [(false, failed), (false, synced), (true, synced), (false, None)]);
    assert_eq!(cells(&found.rows[1]), [(false, None), (false, None), (true, None), (false, synced)]);
}

#[test]
fn of_very_many_a_bounded_part_is_shown_and_each_is_on_some_page() {
    let many: Vec<_> = (0..600)
        .map(|at| {
            let target = format!("n-{:03}", at % 128);
            let account = format!("a-{at:03}");
            Arc::new(SyncView { account, ..sync("s", "True", &[(target.as_str(), "Synced")]) })
        })
        .collect();
    let (mut rows, mut columns) = (0, 0);
    for page in 0..12 {
        let found = account_matrix(&many, &[], &AccountQuery { row: page, ..AccountQuery::default() });
        assert!(found.rows.len() <= ROWS && found.rows.iter().all(|row| row.cells.len() <= COLUMNS));
        rows += found.rows.len();
    }
    for page in 0..6 {
        columns += account_matrix(&many, &[], &AccountQuery { column: page, ..AccountQuery::default() })
            .columns
            .len();
    }
    assert_eq!((rows, columns), (600, 129));
    let far =
        account_matrix(&many, &[], &AccountQuery { row: usize::MAX, column: usize::MAX, q: String::new() });
    assert_eq!((far.row_part.page, far.column_part.page), (11, 5));
}

#[test]
fn one_is_found_by_its_name_a_source_or_a_target() {
    let syncs = some();
    let names = |q: &str| {
        let found = account_matrix(&syncs, &[], &AccountQuery { q: q.into(), ..AccountQuery::default() });
        found.rows.iter().map(|row| row.account.name.to_owned()).collect::<Vec<_>>().join(" ")
    };
    for (q, expected) in
        [("TEAM-A/other", "other"), ("zoo", "other"), ("bar", "copier"), ("team-a/b", "copier"), ("none", "")]
    {
        assert_eq!(names(q), expected, "{q}");
    }
}

#[test]
fn who_writes_the_secret_of_a_token_does_it_in_its_own_namespace() {
    let tokens = [Arc::new(TokenView { writer: "writer".into(), ..token("t") })];
    let found = account_matrix(&[], &tokens, &AccountQuery::default());
    let row = &found.rows[0];
    assert_eq!((row.account.name, found.columns.as_slice()), ("writer", &[row.account.namespace][..]));
    assert!(row.cells[0].keeps.is_some() && row.cells[0].writes.is_none() && !row.cells[0].reads);
}

#[test]
fn a_blank_of_a_full_status_is_not_said_to_be_no_copy() {
    let full = SyncView { is_truncated: true, ..sync("a", "True", &[("foo", "Synced")]) };
    let other = SyncView { account: "other".into(), ..sync("b", "True", &[("bar", "Synced")]) };
    let syncs = [Arc::new(full), Arc::new(other)];
    let found = account_matrix(&syncs, &[], &AccountQuery::default());
    let cells: Vec<_> = found.rows.iter().map(|row| row.cells[0].unnamed).collect();
    assert_eq!((found.columns[0], cells), ("bar", vec![Some(Unnamed::SyncedOrNone), None]));
}

#[test]
fn what_is_needed_in_a_namespace_is_that_of_each_sync_and_token() {
    let syncs = [Arc::new(SyncView { account: "w".into(), ..sync("a", "True", &[("foo", "Synced")]) })];
    let tokens = [Arc::new(token("t"))];
    let found = account(&syncs, &tokens, "team-a", "w").unwrap();
    let kind = ObjectKind::CONFIG_MAP;
    let kinds = BTreeMap::from([(KindName::from(kind), kind)]);
    let verbs = |namespace: &str| {
        let mut verbs: Vec<_> = found.needed(namespace, &kinds).iter().map(|right| right.verb).collect();
        verbs.sort_unstable();
        verbs.join(" ")
    };
    assert_eq!(found.namespaces().into_iter().collect::<Vec<_>>(), ["foo", "team-a"]);
    assert_eq!(verbs("foo"), "create delete get list update watch");
    assert_eq!(verbs("team-a"), "create get get list list update watch watch");
    assert_eq!(verbs("other"), "");
}

#[test]
fn a_sync_of_any_kind_needs_the_rights_on_that_kind_and_on_each_source_that_it_names() {
    let policy = ObjectKind::served("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies");
    let name = KindName::from(policy);
    let of = |sources: &[&str]| {
        let sources = sources.iter().map(|source| (*source).to_owned()).collect();
        let copies = Some((name.clone(), sources));
        [Arc::new(SyncView { copies, ..sync("a", "True", &[("foo", "Synced")]) })]
    };
    for (sources, expected) in [(&["deny", "dns"][..], &[Some("deny"), Some("dns")][..]), (&[], &[None])] {
        let syncs = of(sources);
        let found = account(&syncs, &[], "team-a", "copier").unwrap();
        for (namespace, is_there) in [("team-a", true), ("foo", true), ("other", false)] {
            assert_eq!(!found.copied(namespace).is_empty(), is_there, "{namespace}");
        }
        assert!(found.needed("foo", &BTreeMap::new()).is_empty(), "what is not served needs nothing");
        let kinds = BTreeMap::from([(name.clone(), policy)]);
        let rights = found.needed("team-a", &kinds);
        let names: BTreeSet<_> = rights.iter().map(|right| right.object.as_deref()).collect();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), expected);
        let rights = found.needed("foo", &kinds);
        assert!(rights.len() == 6 && rights.iter().all(|right| right.kind == policy), "{rights:?}");
    }
}
