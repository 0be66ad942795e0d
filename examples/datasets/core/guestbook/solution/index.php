<?php
// A guestbook. php -S 127.0.0.1:8000 index.php; the database is the file that GUESTBOOK names.
// What guests say reaches the database as parameters, and pages through html(), and nothing else.
ini_set('display_errors', '0');
$db = new PDO('sqlite:' . getenv('GUESTBOOK'));
$db->setAttribute(PDO::ATTR_ERRMODE, PDO::ERRMODE_EXCEPTION);
$db->exec('CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, name TEXT, message TEXT, hidden INTEGER DEFAULT 0)');
$db->exec('CREATE TABLE IF NOT EXISTS settings (name TEXT, value TEXT)');
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);

function text(array $from, string $name): ?string
{
    return is_string($from[$name] ?? null) ? $from[$name] : null;
}

function html(?string $text): string
{
    return htmlspecialchars($text ?? '', ENT_QUOTES | ENT_SUBSTITUTE);
}

// Links are found in what the guest wrote, before anything is escaped.
function links(?string $message): string
{
    $html = '';
    $end = 0;
    preg_match_all('/\[([^\]]+)\]\(([^)]+)\)/', $message ?? '', $all, PREG_SET_ORDER | PREG_OFFSET_CAPTURE);
    foreach ($all as [[$whole, $at], [$text], [$address]]) {
        $html .= html(substr($message, $end, $at - $end));
        $good = preg_match('~^https?://~', $address);
        $html .= $good ? '<a href="' . html($address) . '">' . html($text) . '</a>' : html($whole);
        $end = $at + strlen($whole);
    }
    return $html . html(substr($message ?? '', $end));
}

function show(iterable $entries): void
{
    foreach ($entries as $e) {
        echo '<article id="e', (int) $e['id'], '"><h2>', html($e['name']), '</h2><p>', links($e['message']), "</p></article>\n";
    }
}

function fail(int $status): never
{
    http_response_code($status);
    exit($status === 404 ? 'Not found' : 'Bad request');
}

function query(string $sql, array $values = []): PDOStatement
{
    global $db;
    $statement = $db->prepare($sql);
    $statement->execute($values);
    return $statement;
}

if ($path === '/' && $_SERVER['REQUEST_METHOD'] === 'POST') {
    $name = text($_POST, 'name');
    $message = text($_POST, 'message');
    foreach ([$name, $message] as $t) {
        if ($t === null || trim($t) === '' || strlen($t) > 2000) {
            fail(400);
        }
    }
    query('INSERT INTO entries (name, message) VALUES (?, ?)', [$name, $message]);
    $next = text($_POST, 'next') ?? '/';
    $ours = strlen($next) <= 200 && preg_match('~\A/(?!/)[A-Za-z0-9/?=&._-]*\z~', $next);
    header('Location: ' . ($ours ? $next : '/'), true, 303);
} elseif ($path === '/') {
    $order = isset($_GET['order']) ? text($_GET, 'order') ?? 'id' : 'id';
    if (!preg_match('/\A(id|name|message)( desc)?\z/', $order)) {
        fail(400);
    }
    echo "<!doctype html>\n<title>Guestbook</title>\n";
    show(query("SELECT * FROM entries WHERE NOT hidden ORDER BY $order, id"));
} elseif ($path === '/search') {
    $q = text($_GET, 'q') ?? '';
    echo "<!doctype html>\n<title>Search</title>\n<h1>", html($q), "</h1>\n";
    if ($q !== '') {
        show(query('SELECT * FROM entries WHERE NOT hidden AND instr(lower(message), lower(?)) ORDER BY id', [$q]));
    }
} elseif ($path === '/entry') {
    $id = text($_GET, 'id') ?? '';
    $entry = preg_match('/\A[0-9]{1,18}\z/', $id)
        ? query('SELECT * FROM entries WHERE NOT hidden AND id = ?', [(int) $id])->fetch() : false;
    if (!$entry) {
        fail(404);
    }
    header('Content-Type: application/json');
    echo json_encode(['name' => $entry['name'], 'message' => $entry['message']], JSON_INVALID_UTF8_SUBSTITUTE);
} elseif ($path === '/page') {
    $file = __DIR__ . '/pages/' . text($_GET, 'name') . '.html';
    if (!preg_match('/\A[A-Za-z0-9-]+\z/', text($_GET, 'name') ?? '') || !is_file($file)) {
        fail(404);
    }
    readfile($file);
} else {
    fail(404);
}
