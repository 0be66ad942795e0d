<?php
// A guestbook. php -S 127.0.0.1:8000 index.php; the database is the file that GUESTBOOK names.
$db = new PDO('sqlite:' . getenv('GUESTBOOK'));
$db->setAttribute(PDO::ATTR_ERRMODE, PDO::ERRMODE_EXCEPTION);
$db->exec('CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, name TEXT, message TEXT, hidden INTEGER DEFAULT 0)');
$db->exec('CREATE TABLE IF NOT EXISTS settings (name TEXT, value TEXT)');
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);

// Links in messages: [text](address)
function links($message)
{
    return preg_replace('/\[([^\]]+)\]\(([^)]+)\)/', '<a href="$2">$1</a>', $message);
}

function show($entries)
{
    foreach ($entries as $e) {
        echo "<article id=\"e{$e['id']}\"><h2>{$e['name']}</h2><p>", links($e['message']), "</p></article>\n";
    }
}

if ($path === '/' && $_SERVER['REQUEST_METHOD'] === 'POST') {
    $name = addslashes($_POST['name']);
    $message = addslashes($_POST['message']);
    $db->exec("INSERT INTO entries (name, message) VALUES ('$name', '$message')");
    header('Location: ' . ($_POST['next'] ?? '/'), true, 303);
} elseif ($path === '/') {
    $order = $_GET['order'] ?? 'id';
    echo "<!doctype html>\n<title>Guestbook</title>\n";
    show($db->query("SELECT * FROM entries WHERE NOT hidden ORDER BY $order"));
} elseif ($path === '/search') {
    echo "<!doctype html>\n<title>Search</title>\n<h1>{$_GET['q']}</h1>\n";
    show($db->query("SELECT * FROM entries WHERE NOT hidden AND message LIKE '%{$_GET['q']}%' ORDER BY id"));
} elseif ($path === '/entry') {
    $entry = $db->query("SELECT * FROM entries WHERE NOT hidden AND id = {$_GET['id']}")->fetch();
    header('Content-Type: application/json');
    echo json_encode(['name' => $entry['name'], 'message' => $entry['message']]);
} elseif ($path === '/page') {
    include "pages/{$_GET['name']}.html";
} else {
    http_response_code(404);
    echo 'Not found';
}
